//! [`Lookup`]: entities of a type by an index.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use futures_util::future::{Either, ready};
use futures_util::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::{IndexDefinition, Payload, Shape, Text};
use table_core::model::{Entity, Key};
use table_core::query::{Continuation, Page, ReadablePage, Select, UnreadableEntity};
use table_core::store::{CycleDetector, Error, KeyOrder, Result, TableStore};
use table_core::typed::load::RowLoader;
use table_core::typed::{EntriesOf, FindsOne, FromEntity, IndexEntries, ManyEntries, TableEntity};

use super::Table;
use super::indexes::TypeIndexes;
use super::lookup::sealed::{Decode, Followed};
use crate::index::{IndexQuery, IndexedEntities, Stored, Trust};
use crate::rows::{is_version_property, readable, stream_readable};

/// A lookup of entities of `T` by an index, with results of type `R`: created by [`Table::by`], then
/// run, as often as needed. Running reports a key part that cannot be encoded.
///
/// # Cost
/// 1 request for a page of entries. If the entries lack properties of `R`, or the times that hide an entity, 1
/// more for each entity, with [`IndexOptions::concurrency`](crate::index::IndexOptions) requests in parallel.
///
/// # Consistency
/// A local entry is never stale. A remote entry can be stale while the write that moves it is under way. A
/// lookup that reads the entity omits an entity that no longer has the entry. A lookup that reads only entries
/// returns them unverified, unless it is [`verified`](Self::verified).
#[must_use = "a lookup does nothing until it is run"]
pub struct Lookup<T, R = T, K = ManyEntries> {
    indexes: Arc<TypeIndexes>,
    entries: Result<IndexEntries<T>>,
    trust: Trust,
    limit: Option<usize>,
    page_size: Option<usize>,
    sorts: bool,
    /// Whether the lookup returns entities that have expired or are deleted.
    shows_hidden: bool,
    /// Reads the large values of the entities.
    loader: Option<Arc<dyn RowLoader>>,
    /// The number of entities that are loaded at once.
    concurrency: usize,
    of: PhantomData<fn() -> (R, K)>,
}

impl<T, R, K> Clone for Lookup<T, R, K> {
    fn clone(&self) -> Self {
        Self {
            indexes: Arc::clone(&self.indexes),
            entries: self.entries.clone(),
            loader: self.loader.clone(),
            ..*self
        }
    }
}

impl<T: TableEntity> Table<T> {
    /// Looks up entities by an index: `T::by_…(…)` names the entries, with as many leading parts of their keys
    /// as are known. The whole key of a unique index finds at most one entity.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// # use table_patterns::index::IndexOptions;
    /// # use table_patterns::Database;
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(type = "Flight", rename_all = "PascalCase", row_key = "{year:04}_{number:04}")]
    /// # #[index(plane, partition_key = "plane_{plane}", row_key = "{year:04}_{carrier}_{number:04}")]
    /// # struct Flight { #[partition_key] carrier: String, year: u32, number: u32, plane: Option<String> }
    /// # let flights = Database::new(MemoryStore::new()).table::<Flight>("Flights")?;
    /// # for year in 2010..2015 {
    /// #     let (carrier, plane) = ("UA".to_owned(), Some("N14228".to_owned()));
    /// #     flights.insert(&Flight { carrier, year, number: 1, plane }).await?;
    /// # }
    /// let of_plane = Flight::by_plane("N14228");
    /// assert_eq!(flights.by(of_plane.clone()).all().await?.len(), 5);
    /// assert_eq!(flights.by(of_plane.clone().year_in(2011..=2013)).count().await?, 3);
    /// assert_eq!(flights.by(of_plane.year(2012).carrier("UA")).first().await?.map(|f| f.number), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn by<E: EntriesOf<T>>(&self, entries: E) -> Lookup<T, T, E::Kind> {
        let indexes = Arc::clone(self.indexes());
        let lookup = Lookup::new(indexes, entries.into_entries());
        Lookup {
            loader: self.plain().loader().cloned(),
            concurrency: self.plain().concurrency(),
            ..lookup.showing_hidden(self.plain().shows_hidden())
        }
    }
}

impl<T: TableEntity, R: Found, K> Lookup<T, R, K> {
    pub(super) const fn new(indexes: Arc<TypeIndexes>, entries: Result<IndexEntries<T>>) -> Self {
        let (trust, limit, page_size, sorts) = (Trust::Entry, None, None, false);
        Lookup {
            indexes,
            entries,
            trust,
            limit,
            page_size,
            sorts,
            shows_hidden: false,
            loader: None,
            concurrency: 1,
            of: PhantomData,
        }
    }

    pub(crate) const fn showing_hidden(mut self, shows_hidden: bool) -> Self {
        self.shows_hidden = shows_hidden;
        self
    }

    /// Whether the lookup leaves hidden entities out.
    const fn hides(&self) -> bool {
        T::SCHEMA.expiry.is_some() && !self.shows_hidden
    }

    /// Leaves out hidden entities.
    fn without_hidden(&self, mut found: Vec<Entity>) -> Result<Vec<Entity>> {
        if self.hides() {
            let now = self.indexes.store().context().now();
            found.retain(|entity| !T::SCHEMA.hides(entity, now));
        }
        Ok(found)
    }

    /// The rows to read so that the lookup can tell hidden entities.
    fn with_times(&self, index: &str, reading: Reading) -> Reading {
        if !self.hides() || reading == Reading::By(Trust::Entity) {
            return reading;
        }
        // Whether an entity is hidden depends on its times. From entries without them, hidden entities would
        // be returned.
        match schema_of::<T>(index).map(|schema| &schema.payload) {
            Some(Payload::Full) => reading,
            Some(Payload::Fields(names)) if has_times::<T>(names) => reading,
            Some(Payload::Reference) if reading == Reading::By(Trust::Entry) => reading,
            _ => Reading::By(Trust::Entity),
        }
    }

    /// The indexes. The first lookup of a program that has not written opens them: 1 request.
    pub(crate) async fn entities(&self) -> Result<&IndexedEntities> {
        self.indexes.to_read().await
    }

    /// The entries to look up.
    pub(crate) fn entries(&self) -> Result<IndexEntries<T>> {
        self.entries.clone()
    }
}

impl<T: TableEntity, R: Found, K> Lookup<T, R, K> {
    /// Reads every entity, which must still have the entry: 1 request more for each, never stale.
    pub fn verified(mut self) -> Self {
        self.trust = Trust::Entity;
        self
    }

    /// Returns another type: a projection of `T`. No entity is read if the entries hold every property of the
    /// projection, or the projection has only parts of the key.
    pub fn project<P: FromEntity>(self) -> Lookup<T, P, K> {
        self.returning()
    }

    /// Returns [`Stored`] entities, to replace or remove them. Each entity is read and must still have the
    /// entry: 1 request more for each, and no more if the entries are references.
    pub fn stored(self) -> Lookup<T, Stored<T>, K> {
        self.verified().returning()
    }

    /// The same lookup with another result type.
    fn returning<P>(self) -> Lookup<T, P, K> {
        Lookup {
            indexes: self.indexes,
            entries: self.entries,
            trust: self.trust,
            limit: self.limit,
            page_size: self.page_size,
            sorts: self.sorts,
            shows_hidden: self.shows_hidden,
            loader: self.loader,
            concurrency: self.concurrency,
            of: PhantomData,
        }
    }

    /// Returns at most this many entities: the first in the order of the entries. References of a list beyond
    /// the limit are not followed. A limit bounds each [`page`](Self::page), and the next page continues. A
    /// store that does not sort refuses a limit, unless [`sorted_on_client`](Self::sorted_on_client) is set.
    pub const fn limit(mut self, entities: usize) -> Self {
        self.limit = Some(entities);
        self
    }

    /// Requests at most this many entries in a page. A list with all of its entities is one entry.
    pub const fn page_size(mut self, entries: usize) -> Self {
        self.page_size = Some(entries);
        self
    }

    /// Returns entities in the order of their entries from every store.
    ///
    /// From a store that does not sort, *all* matching entities are read, their entries are held in memory, and
    /// the result is one page. No effect on a store that sorts.
    pub const fn sorted_on_client(mut self) -> Self {
        self.sorts = true;
        self
    }

    /// One page, from the start or from the continuation of an earlier page. Entities that no longer have their
    /// entry are omitted, so a page may be short or even empty.
    ///
    /// A [`limit`](Self::limit) and a [`page_size`](Self::page_size) bound the page; the continuation may be
    /// within a list. It is valid for the same lookup, with any limit and page size.
    ///
    /// # Errors
    /// A key part cannot be encoded; the index is not readable; an error of the store; the continuation is of
    /// another lookup; the lookup has a limit and is sorted on the client, so its result is one page.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<R>> {
        self.check_has_pages()?;
        self.page_of(from, self.limit).await
    }

    /// Whether the store returns entries in an order of its own.
    fn is_unsorted(&self) -> Result<bool> {
        Ok(self.indexes.store().profile().order == KeyOrder::Unsorted)
    }

    fn check_has_pages(&self) -> Result<()> {
        if self.limit.is_some() && self.sorts && self.is_unsorted()? {
            return Err(Error::misuse(
                "a lookup that is sorted on the client and has a limit has no pages: call `stream`",
            ));
        }
        Ok(())
    }

    /// One page like [`page`](Self::page), with a list of the entities of it that cannot be read, with keys and errors: an entity that is not an
    /// `R`, an entity or entry that the store cannot decrypt. An entry that cannot be read is listed with its own key.
    ///
    /// # Errors
    /// As for [`page`](Self::page), without the errors of single entities.
    pub async fn readable_page(&self, from: Option<&Continuation>) -> Result<ReadablePage<R>> {
        self.check_has_pages()?;
        let ReadablePage { page, unreadable } = self.entities_of_page(from, self.limit).await?;
        if self.loads() {
            return self.loaded_page(page, unreadable).await;
        }
        let read = |entity: Entity| (entity.key().clone(), R::decode(Followed::row(entity)));
        let mut found = readable(page.items.into_iter().map(read), page.continuation);
        found.unreadable.extend(unreadable);
        Ok(found)
    }

    /// Returns a stream of the results that goes on after an entity that cannot be read: such an entity is an `Err` with its key within an
    /// `Ok`. An error of the store ends the stream. The requests of its [pages](Self::page). The unreadable entities of a page come after the
    /// others, and do not count towards a [`limit`](Self::limit).
    ///
    /// # Errors
    /// The errors of [`readable_page`](Self::readable_page), as items.
    pub fn stream_readable(
        &self,
    ) -> impl Stream<Item = Result<Result<R, UnreadableEntity>>> + Send + Unpin + use<T, R, K> {
        stream_readable(
            self.clone(),
            self.limit,
            Self::limit,
            |query, from| async move { query.readable_page(from.as_ref()).await },
        )
    }

    /// All entities, collected.
    ///
    /// # Errors
    /// As for [`page`](Self::page).
    pub async fn all(&self) -> Result<Vec<R>> {
        self.stream().try_collect().await
    }

    /// All entities, one page at a time. The stream owns what it needs: it borrows neither the lookup nor the table.
    ///
    /// # Errors
    /// As for [`page`](Self::page), as an item.
    pub fn stream(&self) -> impl Stream<Item = Result<R>> + Send + use<T, R, K> {
        if self.loads() {
            let rows = self.pages_of(|lookup, from, left| async move {
                lookup
                    .entities_of_page(from.as_ref(), left)
                    .await?
                    .into_page()
            });
            // Rows are read by pages, and their values a few at once.
            return Either::Left(self.loaded(rows));
        }
        Either::Right(self.pages_of(|lookup, from, left| async move {
            lookup.page_of(from.as_ref(), left).await
        }))
    }

    /// The items of all pages, one after another.
    fn pages_of<I: Send, F, G>(
        &self,
        read: G,
    ) -> impl Stream<Item = Result<I>> + Send + use<T, R, K, I, F, G>
    where
        G: Fn(Self, Option<Continuation>, Option<usize>) -> F + Copy + Send,
        F: Future<Output = Result<Page<I>>> + Send,
    {
        let start =
            Some((None, self.limit, CycleDetector::default())).filter(|_| self.limit != Some(0));
        let pages = stream::try_unfold((self.clone(), start), move |(lookup, at)| async move {
            let Some((from, left, mut cycles)) = at else {
                return Ok::<_, Error>(None);
            };
            let page = read(lookup.clone(), from, left).await?;
            // No page has more than `left` entities, so the subtraction cannot overflow.
            let left = left.map(|left| left - page.items.len());
            let next = page.continuation.filter(|_| left != Some(0));
            next.iter()
                .try_for_each(|next| cycles.add(next, page.items.len()))?;
            let next = next.map(|from| (Some(from), left, cycles));
            Ok(Some((
                stream::iter(page.items.into_iter().map(Ok)),
                (lookup, next),
            )))
        });
        pages.try_flatten()
    }

    /// The first entity in the order of the entries. `None`, without a request, if the [`limit`](Self::limit)
    /// is 0.
    ///
    /// # Errors
    /// As for [`page`](Self::page). Unsupported, before any request: the store does not sort, and
    /// [`sorted_on_client`](Self::sorted_on_client) is not set.
    pub async fn first(&self) -> Result<Option<R>> {
        if self.limit == Some(0) {
            return Ok(None);
        }
        let (mut from, mut cycles) = (None, CycleDetector::default());
        loop {
            let page = self.page_of(from.as_ref(), Some(1)).await?;
            from = page.continuation;
            match (page.items.into_iter().next(), &from) {
                // A page may be empty before the end: its entries may have lost their entities.
                (None, Some(next)) => cycles.add(next, 0)?,
                (found, _) => return Ok(found),
            }
        }
    }

    /// The number of entities, by their entries alone. Each entity is read if the lookup is
    /// [`verified`](Self::verified), or if entities of the type can be hidden and the entries lack their times.
    /// 1 request a page, and 1 for each reservation in it; lists that are not named by their whole key are
    /// followed.
    ///
    /// # Errors
    /// As for [`page`](Self::page).
    pub async fn count(&self) -> Result<usize> {
        let (entities, entries) = (self.entities().await?, self.entries()?);
        let (mut from, mut count) = (None, 0);
        let mut cycles = CycleDetector::default();
        if let Some(list) =
            list_of(&entries)?.filter(|_| self.trust == Trust::Entry && !self.hides())
        {
            // The references are the number: no entity is read.
            let count = entities.references(entries.index(), &list).await?.len();
            return Ok(self.limit.map_or(count, |limit| count.min(limit)));
        }
        let reading = self.with_times(
            entries.index(),
            reading_of_count::<T>(entries.index(), self.trust),
        );
        loop {
            // Hidden entities must not use up the limit: the rows of the page behind it would be skipped.
            let left = self
                .limit
                .filter(|_| !self.hides())
                .map_or(usize::MAX, |limit| limit - count);
            let query = self.query(&entries, None);
            let page = read_page(entities, &entries, reading, &query, from.as_ref(), left)
                .await?
                .into_page()?;
            let found = self.without_hidden(page.items)?.len();
            count += found;
            from = page.continuation;
            if from.is_none() || self.limit.is_some_and(|limit| count >= limit) {
                return Ok(self.limit.map_or(count, |limit| count.min(limit)));
            }
            from.iter().try_for_each(|next| cycles.add(next, found))?;
        }
    }

    async fn page_of(&self, from: Option<&Continuation>, left: Option<usize>) -> Result<Page<R>> {
        let page = self.entities_of_page(from, left).await?.into_page()?;
        if self.loads() {
            let rows = stream::iter(page.items.into_iter().map(Ok));
            return Ok(Page {
                items: self.loaded(rows).try_collect().await?,
                continuation: page.continuation,
            });
        }
        page.try_map(|entity| R::decode(Followed::row(entity)))
    }

    async fn entities_of_page(
        &self,
        from: Option<&Continuation>,
        left: Option<usize>,
    ) -> Result<ReadablePage> {
        let (entities, entries) = (self.entities().await?, self.entries()?);
        // A list is sorted by its references, in every store.
        if left.is_some() && list_of(&entries)?.is_none() {
            entities.lookups().check_order(self.sorts)?;
        }
        let reading = self.with_times(
            entries.index(),
            reading_of_result::<T, R>(entries.index(), self.trust),
        );
        let (query, limit) = (self.query(&entries, left), left.unwrap_or(usize::MAX));
        if limit == 0 {
            return Ok(readable([], None));
        }
        // A result that is sorted on the client is one page: hidden entities must not use up its limit.
        let wanted = if self.sorts && self.hides() && self.is_unsorted()? {
            usize::MAX
        } else {
            limit
        };
        let mut found = read_page(entities, &entries, reading, &query, from, wanted).await?;
        found.page.items = self.without_hidden(found.page.items)?;
        // Only a result that is sorted on the client, which is one page, can exceed the limit.
        found.page.items.truncate(limit);
        Ok(found)
    }

    /// Whether the results have values outside of their rows.
    fn loads(&self) -> bool {
        self.loader.is_some() && R::has_large()
    }

    /// The result of a row with its large values; `None` if the entity was deleted or has lost its entry.
    async fn load(&self, row: Entity) -> Result<Option<R>> {
        let Some(loader) = &self.loader else {
            return R::decode(Followed::row(row)).map(Some);
        };
        let (entities, entries) = (self.entities().await?, self.entries()?);
        let (index, partition) = (entries.index(), entries.partition().as_str());
        let (lookups, now) = (entities.lookups(), self.indexes.store().context().now());
        let failed = OnceLock::new();
        let is_found = |row: &Entity| {
            if self.hides() && T::SCHEMA.hides(row, now) {
                return false;
            }
            let found = lookups.has_entry_among(index, row, partition, entries.rows());
            found.unwrap_or_else(|error| {
                failed.get_or_init(|| error);
                false
            })
        };
        // One value after another: several entities are loaded at the same time.
        let loaded = loader.load(row, 1, &is_found).await?;
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        loaded
            .map(|row| R::decode(Followed::Loaded(row)))
            .transpose()
    }

    /// The results of rows, several at once, without entities that are gone.
    fn loaded<S: Stream<Item = Result<Entity>> + Send>(
        &self,
        rows: S,
    ) -> impl Stream<Item = Result<R>> + Send + use<T, R, K, S> {
        let (lookup, concurrency) = (self.clone(), self.concurrency(self.limit));
        let loads = rows.map(move |row| {
            let lookup = lookup.clone();
            async move { lookup.load(row?).await }
        });
        loads
            .buffered(concurrency)
            .try_filter_map(|found| ready(Ok(found)))
    }

    /// Not more than the limit, so that no value is read in vain.
    fn concurrency(&self, limit: Option<usize>) -> usize {
        self.concurrency.min(limit.unwrap_or(usize::MAX)).max(1)
    }

    async fn loaded_page(
        &self,
        page: Page<Entity>,
        unreadable: Vec<UnreadableEntity>,
    ) -> Result<ReadablePage<R>> {
        let loads = stream::iter(page.items).map(|row| {
            let key = row.key().clone();
            self.load(row).map(|loaded| match loaded {
                // A transient error concerns more than the entity, so it is an error of the page.
                Err(error) if error.is_transient() => Err(error),
                loaded => Ok(loaded.transpose().map(|loaded| (key, loaded))),
            })
        });
        let loaded: Vec<_> = loads
            .buffered(self.concurrency(None))
            .try_filter_map(|found| ready(Ok(found)))
            .try_collect()
            .await?;
        let mut found = readable(loaded, page.continuation);
        found.unreadable.extend(unreadable);
        Ok(found)
    }

    /// The text that identifies the lookup: a cursor is valid only for lookups with the same text.
    #[cfg(feature = "paging")]
    pub(crate) fn identity(&self) -> Result<String> {
        let (store, entries) = (self.indexes.store(), self.entries()?);
        let table = store.profile().table_identity(self.indexes.table());
        let (index, partition, rows) = (entries.index(), entries.partition(), entries.rows());
        Ok(format!(
            "{table}\n{index}\n{:?}\n{rows:?}\n{:?}",
            partition.as_str(),
            self.trust
        ))
    }

    fn query(&self, entries: &IndexEntries<T>, left: Option<usize>) -> IndexQuery {
        let query = query(entries);
        let query = if self.sorts {
            query.sorted_on_client()
        } else {
            query
        };
        match (self.page_size, left) {
            (Some(size), Some(left)) => query.top(size.min(left)),
            (Some(top), None) | (None, Some(top)) => query.top(top),
            (None, None) => query,
        }
    }
}

impl<T: TableEntity, R: Found, K> Lookup<T, R, K> {
    /// The entity, or `None`. 1 request if the entry holds the properties of `R`, otherwise 2. Only for the whole key of a unique index.
    ///
    /// # Errors
    /// As for [`page`](Self::page).
    pub async fn get(&self) -> Result<Option<R>>
    where
        K: FindsOne<T>,
    {
        let (entities, entries) = (self.entities().await?, self.entries()?);
        // A lookup of this kind has the whole key, so the range is one row.
        let row = entries.rows().as_single().unwrap_or_default();
        let key = Key::new(entries.partition().as_str(), row)?;
        let reading = self.with_times(
            entries.index(),
            reading_of_result::<T, R>(entries.index(), self.trust),
        );
        let found = match reading {
            Reading::EntryOnly => {
                entities
                    .lookups()
                    .find_payload(entries.index(), &key)
                    .await?
            }
            Reading::By(trust) => entities.find(entries.index(), &key, trust).await?,
        };
        let found = self.without_hidden(found.into_iter().collect())?.pop();
        match found {
            Some(row) if self.loads() => self.load(row).await,
            found => found
                .map(|entity| R::decode(Followed::row(entity)))
                .transpose(),
        }
    }
}

impl<T, R, K> fmt::Debug for Lookup<T, R, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup")
            .field("entries", &self.entries)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

/// The rows that a lookup reads. [`Trust`] is what the caller asks for; this follows from it, the payload and the result type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Entries alone, even if they are references: the result needs nothing but the key, or is a count.
    EntryOnly,
    /// Entries, and the entities that this trust requires.
    By(Trust),
}

/// The rows to read for a count: entries alone if each entity has a row, otherwise lists and their entities.
fn reading_of_count<T: TableEntity>(index: &str, trust: Trust) -> Reading {
    let is_row = schema_of::<T>(index).is_some_and(|schema| schema.shape == Shape::Row);
    if is_row && trust == Trust::Entry {
        Reading::EntryOnly
    } else {
        Reading::By(Trust::Entity)
    }
}

/// The rows to read for a result of type `R`.
fn reading_of_result<T: TableEntity, R: Found>(index: &str, trust: Trust) -> Reading {
    let schema = schema_of::<T>(index).filter(|_| trust == Trust::Entry);
    let Some(schema) = schema else {
        return Reading::By(Trust::Entity);
    };
    match &schema.payload {
        Payload::Reference if is_of_key::<T, R>() && schema.shape == Shape::Row => {
            Reading::EntryOnly
        }
        Payload::Fields(names) if !holds::<T, R>(names) => Reading::By(Trust::Entity),
        Payload::Full | Payload::Fields(_) | Payload::Reference => Reading::By(Trust::Entry),
    }
}

/// The declaration of an index; `None` if the type does not declare it.
fn schema_of<T: TableEntity>(index: &str) -> Option<&'static IndexDefinition> {
    T::SCHEMA.indexes.iter().find(|schema| schema.name == index)
}

/// Whether a projection needs only these properties.
fn holds<T: TableEntity, R: Found>(names: &[Text]) -> bool {
    let is_discriminator = |name: &str| T::SCHEMA.discriminator.property() == Some(name);
    let known = |name: &str| {
        names.iter().any(|held| held == name) || is_discriminator(name) || is_version_property(name)
    };
    R::needs().is_some_and(|select| select.names().all(known))
}

/// Whether these properties decide whether an entity is hidden.
fn has_times<T: TableEntity>(names: &[Text]) -> bool {
    T::SCHEMA
        .expiry
        .iter()
        .flat_map(|expiry| expiry.names())
        .all(|name| names.contains(name))
}

/// Whether a projection needs only the key. A later schema version than 1 is in a property, which a read needs too.
fn is_of_key<T: TableEntity, R: Found>() -> bool {
    T::SCHEMA.version == 1 && holds::<T, R>(&[])
}

/// The key of a list, if the entries are one list.
fn list_of<T: TableEntity>(entries: &IndexEntries<T>) -> Result<Option<Key>> {
    let schema = schema_of::<T>(entries.index());
    let row = entries
        .rows()
        .as_single()
        .filter(|_| schema.is_some_and(|schema| schema.shape != Shape::Row));
    row.map(|row| Key::new(entries.partition().as_str(), row))
        .transpose()
}

/// The query for the entries.
pub(super) fn query<T>(entries: &IndexEntries<T>) -> IndexQuery {
    IndexQuery::partition(entries.partition().as_str()).rows(entries.rows())
}

/// Reads a page; references of lists are followed until there are `limit` entities.
async fn read_page<T: TableEntity>(
    entities: &IndexedEntities,
    entries: &IndexEntries<T>,
    reading: Reading,
    query: &IndexQuery,
    from: Option<&Continuation>,
    limit: usize,
) -> Result<ReadablePage> {
    if entries.rows().is_empty() {
        return Ok(readable([], None));
    }
    let index = entries.index();
    if let Some(list) = list_of(entries)? {
        return entities
            .lists()
            .page_of_list(index, &list, query, from, limit)
            .await;
    }
    match reading {
        Reading::EntryOnly => {
            entities
                .lookups()
                .page_of_payloads(index, query, from)
                .await
        }
        Reading::By(trust) => {
            entities
                .pages()
                .readable_page(index, query, from, trust, limit)
                .await
        }
    }
}

/// The result type of a lookup: any type that can be [read from an entity](FromEntity), or [`Stored`] entities.
pub trait Found: Decode {}

impl<R: Decode> Found for R {}

pub(crate) mod sealed {
    use super::{Result, Select};
    use table_core::model::Entity;
    use table_core::typed::load::LoadedRow;

    /// An entity that an index led to; only a lookup creates it.
    #[derive(Debug)]
    pub enum Followed {
        Row(Entity),
        /// With the values that are outside of the row.
        Loaded(LoadedRow),
    }

    impl Followed {
        pub(in crate::table) const fn row(entity: Entity) -> Self {
            Self::Row(entity)
        }
    }

    pub trait Decode: Sized + Send + 'static {
        /// The properties that the type needs; `None`: all.
        fn needs() -> Option<Select>;

        /// Whether entities of the type have large values.
        fn has_large() -> bool;

        fn decode(found: Followed) -> Result<Self>;
    }
}

impl<R: FromEntity> Decode for R {
    fn needs() -> Option<Select> {
        R::select()
    }

    fn has_large() -> bool {
        !R::requirements().large.is_empty()
    }

    fn decode(found: Followed) -> Result<Self> {
        match found {
            Followed::Row(entity) => R::from_entity(entity),
            Followed::Loaded(row) => R::from_loaded(row),
        }
    }
}

/// A lookup of stored entities reads every entity, whatever the entries hold.
impl<T: TableEntity> Decode for Stored<T> {
    fn needs() -> Option<Select> {
        None
    }

    fn has_large() -> bool {
        T::SCHEMA.properties.iter().any(|p| p.large.is_some())
    }

    fn decode(found: Followed) -> Result<Self> {
        match found {
            Followed::Row(entity) => Self::read(entity),
            Followed::Loaded(row) => Self::loaded(row),
        }
    }
}
