//! Reads of whole entities: one entity, or all entities of a partition.

use std::fmt;
use std::future::ready;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{Entity, Key, PartitionKey, TableName};
use table_core::query::{Continuation, Page, Position, Query, ReadablePage, Select, UnreadableEntity};
use table_core::store::{Conflicts, Error, ErrorKind, KeyOrder, Result, TableStore, TableStoreExt};
use table_core::typed::{FromEntity, PartitionIn};

use super::rows::{ReadRows, Stored, assemble, logical, prefix, query, query_all, query_table, split};
use super::{Wide, WideEntities};
use crate::rows::{readable, stream_readable, with_entity_key};

/// Reads the entities of a table.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) table: TableName,
    pub(super) attempts: u32,
}

impl Reader {
    /// Reads the entity with this key.
    pub(super) async fn read(&self, key: &Key) -> Result<Option<Stored>> {
        let found = self.whole(key.partition(), &prefix(key, self.store.profile())).await;
        match found.map_err(|error| with_entity_key(key, error))? {
            Some(other) if other.key != *key => Err(Error::corrupt(format!(
                "the RowKeys of the wide entities {key} and {} have the same hash: rename one of them",
                other.key
            ))),
            found => Ok(found),
        }
    }

    /// Reads until all rows are of one state.
    async fn whole(&self, partition: &str, prefix: &str) -> Result<Option<Stored>> {
        let head_first = self.store.profile().order == KeyOrder::Sorted;
        let mut conflicts = Conflicts::new(self.attempts);
        let mut torn_before = None;
        loop {
            let rows = self.store.query_all(&self.table, &query(partition, prefix)).await?;
            match assemble(rows)? {
                ReadRows::Nothing => return Ok(None),
                ReadRows::Whole(stored) => return Ok(Some(stored)),
                // A writer that changes chunks after the head row was read changes the head row too. If the head row is
                // read first and has the same write id as in the attempt before, no writer explains the difference.
                ReadRows::Torn(head) if head_first && head.is_some() && head == torn_before => {
                    return Err(self.damaged(partition, prefix));
                }
                ReadRows::Torn(head) => {
                    torn_before = head;
                    conflicts.wait(self.torn(partition, prefix)).await?;
                }
            }
        }
    }

    /// The entities of a partition in the order of their rows, after the entity with this prefix.
    pub(super) fn scan(
        &self,
        partition: &str,
        after: Option<&str>,
    ) -> impl Stream<Item = Result<Scanned>> + Send + use<> {
        self.scan_query(query_all(Some(partition), after))
    }

    /// The entities of the table in the order of their rows, after the entity with this partition and prefix.
    pub(super) fn scan_table(
        &self,
        after: Option<(&str, &str)>,
    ) -> impl Stream<Item = Result<Scanned>> + Send + use<> {
        self.scan_query(query_table(after))
    }

    fn scan_query(&self, query: Query) -> impl Stream<Item = Result<Scanned>> + Send + use<> {
        let (pages, reader) = (self.pages(query), self.clone());
        // Only the row of another entity ends a group, so a last, empty page ends the group of the last entity.
        let end = Page { items: Vec::new(), continuation: None };
        let groups = pages
            .chain(stream::iter([Ok(ReadablePage::from(end))]))
            .scan(OpenGroup::default(), |open, page| ready(Some(page.map(|page| open.groups(page)))));
        let entities = groups.map_ok(|groups| stream::iter(groups.into_iter().map(Ok))).try_flatten();
        entities
            .and_then(move |group| read_group(reader.clone(), group))
            .try_filter_map(|found| ready(Ok(found)))
    }

    /// The pages of rows; the stream owns the store.
    fn pages(&self, query: Query) -> impl Stream<Item = Result<ReadablePage>> + Send + use<> {
        let (store, table) = (Arc::clone(&self.store), self.table.clone());
        // The state: `None` after the last page; otherwise the token of the next page, which the first page does not need.
        stream::try_unfold(Some(None), move |from: Option<Option<_>>| {
            let (store, table, query) = (Arc::clone(&store), table.clone(), query.clone());
            async move {
                let Some(from) = from else { return Ok(None) };
                let page = store.query_readable(&table, &query, from.as_ref()).await?;
                let next = page.page.continuation.clone().map(Some);
                Ok(Some((page, next)))
            }
        })
    }

    fn torn(&self, partition: &str, prefix: &str) -> Error {
        let key = format!("({partition}, {prefix}…)");
        ErrorKind::PreconditionFailed { table: self.table.to_string(), key }.into()
    }

    fn damaged(&self, partition: &str, prefix: &str) -> Error {
        Error::corrupt(format!(
            "the rows ({partition}, {prefix}…) of the table '{}' do not belong together, and no writer explains it: \
             another program has changed single rows; restore them",
            self.table
        ))
    }
}

/// An entity that a scan has found.
pub(super) struct Scanned {
    pub(super) partition: String,
    /// The prefix of the keys of its rows.
    pub(super) prefix: String,
    /// The entity, or why it cannot be read.
    pub(super) read: std::result::Result<Stored, UnreadableEntity>,
}

impl Scanned {
    pub(super) fn into_stored(self) -> Result<Stored> {
        self.read.map_err(|unreadable| unreadable.error)
    }
}

/// The rows of an entity, and the error of one of them.
struct EntityRows {
    rows: Vec<Entity>,
    error: Option<Error>,
}

/// The rows of the last entity of a page, which the next page may continue.
#[derive(Default)]
struct OpenGroup {
    rows: Vec<Entity>,
    /// The rows of unfinished groups that cannot be read.
    unreadable: Vec<UnreadableEntity>,
}

impl OpenGroup {
    /// The groups that are complete after a page.
    fn groups(&mut self, page: ReadablePage) -> Vec<EntityRows> {
        let ReadablePage { mut page, unreadable } = page;
        if !unreadable.is_empty() {
            // A row without properties takes the place of one that cannot be read, so that its entity has a group.
            page.items.extend(unreadable.iter().map(|row| Entity::from(row.key.clone())));
            page.items.sort_by(|a, b| a.key().cmp(b.key()));
            self.unreadable.extend(unreadable);
        }
        let groups = group_by_entity(&mut self.rows, page);
        groups.into_iter().map(|rows| self.with_error(rows)).collect()
    }

    /// The rows of an entity, with the error of the first of them that cannot be read.
    fn with_error(&mut self, rows: Vec<Entity>) -> EntityRows {
        let (of, mut error) = (rows.first().map(|row| shared_prefix(row.key())), None);
        self.unreadable.retain(|row| {
            let is_of_group = Some(shared_prefix(&row.key)) == of;
            if is_of_group {
                error.get_or_insert_with(|| row.error.clone());
            }
            !is_of_group
        });
        EntityRows { rows, error }
    }
}

/// The complete groups of rows, one per entity. The last group stays in `open`, because the next page may continue it; an
/// empty page without a continuation token marks the end.
fn group_by_entity(open: &mut Vec<Entity>, page: Page<Entity>) -> Vec<Vec<Entity>> {
    let is_end = page.items.is_empty() && page.continuation.is_none();
    let mut groups = Vec::new();
    for row in page.items {
        let is_other_entity =
            open.last().is_some_and(|last| shared_prefix(last.key()) != shared_prefix(row.key()));
        if is_other_entity {
            groups.push(std::mem::take(open));
        }
        open.push(row);
    }
    if is_end && !open.is_empty() {
        groups.push(std::mem::take(open));
    }
    groups
}

/// The partition and the prefix of a row's key, which all rows of its entity share.
fn shared_prefix(key: &Key) -> (&str, &str) {
    (key.partition(), split(key.row()).map_or_else(|| key.row(), |(prefix, _)| prefix))
}

/// Reads the entity of rows that a scan has found. `None` if the entity was deleted meanwhile.
async fn read_group(reader: Reader, group: EntityRows) -> Result<Option<Scanned>> {
    let EntityRows { rows, error } = group;
    let Some(first) = rows.first().map(|row| row.key().clone()) else { return Ok(None) };
    let (partition, prefix) = shared_prefix(&first);
    let (partition, prefix) = (partition.to_owned(), prefix.to_owned());
    let key = rows.iter().find_map(logical);
    // Only the head row has the logical key. Without a head row, the report names the first row.
    let reported = key.clone().unwrap_or(first);
    let unreadable = |error| Err(UnreadableEntity { key: reported, error });
    let read = match error {
        Some(error) => unreadable(error),
        None => match assemble_or_reread(&reader, rows, &partition, &prefix).await {
            Ok(None) => return Ok(None),
            Ok(Some(stored)) => Ok(stored),
            Err(error) => {
                let error = match &key {
                    Some(key) => with_entity_key(key, error),
                    None => error,
                };
                if !is_of_one_entity(&error) {
                    return Err(error);
                }
                unreadable(error)
            }
        },
    };
    Ok(Some(Scanned { partition, prefix, read }))
}

/// Assembles the entity of rows that a scan has read; reads the entity again if the rows are of different writes.
async fn assemble_or_reread(
    reader: &Reader,
    rows: Vec<Entity>,
    partition: &str,
    prefix: &str,
) -> Result<Option<Stored>> {
    match assemble(rows)? {
        ReadRows::Whole(stored) => Ok(Some(stored)),
        ReadRows::Nothing | ReadRows::Torn(_) => reader.whole(partition, prefix).await,
    }
}

/// Whether an error concerns the rows of one entity alone: they are damaged, or the store cannot decrypt them.
fn is_of_one_entity(error: &Error) -> bool {
    matches!(error.root().kind(), ErrorKind::Decode(_) | ErrorKind::Storage(_) | ErrorKind::Encryption(_))
}

/// The number of entities in a page without a limit.
const PAGE: usize = 100;
/// Marks the continuation tokens of this query: no other query projects to this name, so no other query accepts the token.
const ENTITIES: &str = "~~wide";

/// A query of the wide entities of a partition, in the order of RowKeys (of hashes for long RowKeys).
/// [`WideTable::query`](super::WideTable::query) makes it; it needs a [`partition`](Self::partition), and can run more than
/// once.
///
/// There are no filters, because the service would apply them to chunks and not to entities.
///
/// # Cost
/// 1 request per page of the store, read as entities are consumed; 1 more per entity that another writer changes during
/// the query. A store that does not sort is refused.
#[must_use = "a query does nothing until it is run"]
pub struct WideQuery<T> {
    pub(super) entities: WideEntities,
    of: Option<PartitionKey>,
    pub(super) limit: Option<usize>,
    shows_hidden: bool,
    as_type: PhantomData<fn() -> T>,
}

impl<T: FromEntity> WideQuery<T> {
    pub(super) const fn new(entities: WideEntities) -> Self {
        Self { entities, of: None, limit: None, shows_hidden: false, as_type: PhantomData }
    }

    /// Returns hidden entities too: those that have expired or are deleted and kept.
    pub const fn with_hidden(mut self) -> Self {
        self.shows_hidden = true;
        self
    }

    /// The entities that the query returns, after the entity with this prefix.
    pub(super) fn found(
        &self,
        of: &PartitionKey,
        after: Option<&str>,
    ) -> impl Stream<Item = Result<Scanned>> + Send + use<T> {
        let hides = self.hidden();
        let found = self.entities.reader.scan(of.as_str(), after);
        found.try_filter(move |scanned| {
            let is_hidden = |stored: &Stored| hides.as_ref().is_some_and(|hides| hides(stored));
            ready(!scanned.read.as_ref().is_ok_and(is_hidden))
        })
    }

    /// Whether the query leaves an entity out; `None` if it leaves none out.
    pub(super) fn hidden(&self) -> Option<impl Fn(&Stored) -> bool + Send + Sync + use<T>> {
        let (expiries, now) = (T::requirements().expiries(), self.entities.now());
        let leaves_out = !self.shows_hidden && !expiries.is_empty();
        leaves_out.then_some(move |stored: &Stored| expiries.hides(&stored.to_entity(), now))
    }

    /// Selects the partition. A query needs one.
    pub fn partition(mut self, of: impl PartitionIn<T>) -> Self {
        self.of = Some(of.partition_key().clone());
        self
    }

    /// Returns at most this many entities. A limit is the size of a [`page`](Self::page).
    pub const fn limit(mut self, entities: usize) -> Self {
        self.limit = Some(entities);
        self
    }

    /// The results as a stream. An error ends the stream.
    ///
    /// # Errors
    /// As items: errors of the store; an entity that is not a `T`, or that other writers changed during every attempt; a
    /// store that does not sort; no partition.
    pub fn stream(&self) -> impl Stream<Item = Result<Wide<T>>> + Send + Unpin + use<T> {
        let found = match self.checked() {
            Ok(of) => self.found(of, None).boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        };
        found.map(|scanned| decode(scanned?.into_stored()?)).take(self.limit.unwrap_or(usize::MAX))
    }

    /// Reads all results into memory.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn all(&self) -> Result<Vec<Wide<T>>> {
        self.stream().try_collect().await
    }

    /// Reads the first result; `None` if there is no result.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn first(&self) -> Result<Option<Wide<T>>> {
        self.stream().try_next().await
    }

    /// Counts the results by reading them.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn count(&self) -> Result<usize> {
        self.stream().try_fold(0, |count, _| std::future::ready(Ok(count + 1))).await
    }

    /// Reads one page, from the start or from a continuation token: as many entities as the [`limit`](Self::limit), or 100.
    /// The token needs the same partition.
    ///
    /// # Errors
    /// As [`stream`](Self::stream); a continuation token of another query.
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<Wide<T>>> {
        let (found, continuation) = self.page_of_entities(from).await?;
        let items = found.into_iter().map(|scanned| decode(scanned.into_stored()?)).collect::<Result<_>>()?;
        Ok(Page { items, continuation })
    }

    /// Reads one page like [`page`](Self::page), and lists the entities of it that cannot be read, with keys and errors: those that
    /// are not a `T`, whose rows are damaged, or that the store cannot decrypt.
    ///
    /// # Errors
    /// As [`page`](Self::page), without the errors of single entities.
    pub async fn readable_page(&self, from: Option<&Continuation>) -> Result<ReadablePage<Wide<T>>> {
        let (found, continuation) = self.page_of_entities(from).await?;
        let read = found.into_iter().map(|scanned| match scanned.read {
            Ok(stored) => (stored.key.clone(), decode(stored)),
            Err(UnreadableEntity { key, error }) => (key, Err(error)),
        });
        Ok(readable(read, continuation))
    }

    /// Returns a stream of the results that goes on after an entity that cannot be read: such an entity is an `Err` with its key within an
    /// `Ok`. An error of the store ends the stream. The requests of its [pages](Self::page). The unreadable entities of a page come after the
    /// others, and do not count towards a [`limit`](Self::limit).
    ///
    /// # Errors
    /// The errors of [`readable_page`](Self::readable_page), as items.
    pub fn stream_readable(
        &self,
    ) -> impl Stream<Item = Result<Result<Wide<T>, UnreadableEntity>>> + Send + Unpin + use<T> {
        stream_readable(self.clone(), self.limit, Self::limit, |query, from| async move {
            query.readable_page(from.as_ref()).await
        })
    }

    /// Reads entities after a continuation token, up to the limit of the query, and the token of the next page.
    async fn page_of_entities(
        &self,
        from: Option<&Continuation>,
    ) -> Result<(Vec<Scanned>, Option<Continuation>)> {
        let of = self.checked()?;
        let Reader { store, table, .. } = &self.entities.reader;
        let query = fingerprinted(of);
        let after = from.map(|from| from.position(store.profile(), table, &query)).transpose()?;
        let limit = self.limit.unwrap_or(PAGE);
        let entities = self.found(of, after.map(|after| &*after.first));
        // One entity more than the limit shows whether there are more.
        let mut page: Vec<Scanned> = entities.take(limit.saturating_add(1)).try_collect().await?;
        let has_more = page.len() > limit;
        page.truncate(limit);
        let continuation = page.last().filter(|_| has_more).map(|last| {
            let position = Position { first: last.prefix.clone(), second: None };
            Continuation::new(store.profile(), table, &query, position)
        });
        Ok((page, continuation))
    }

    /// The text that distinguishes the query from queries with other cursors.
    #[cfg(feature = "paging")]
    pub(crate) fn identity(&self) -> Result<String> {
        let of = self.checked()?;
        let Reader { store, table, .. } = &self.entities.reader;
        Ok(crate::rows::query_identity(store.profile(), table, &fingerprinted(of)))
    }

    /// The partition of a query that can run.
    pub(super) fn checked(&self) -> Result<&PartitionKey> {
        let profile = self.entities.reader.store.profile();
        if profile.order == KeyOrder::Unsorted {
            let what = "a query of wide entities needs the rows in order: read the entities by key";
            return Err(Error::unsupported(profile.name, what));
        }
        let without =
            "a query of wide entities needs a partition: give the partition (`WideQuery::partition`)";
        self.of.as_ref().ok_or_else(|| Error::invalid_request(without))
    }
}

/// The query that identifies a query of this partition in a continuation token.
fn fingerprinted(of: &PartitionKey) -> Query {
    query_all(Some(of.as_str()), None).with_select(Select::new([ENTITIES]))
}

fn decode<T: FromEntity>(stored: Stored) -> Result<Wide<T>> {
    Wide::from(stored).map(T::from_entity)
}

impl<T> Clone for WideQuery<T> {
    fn clone(&self) -> Self {
        Self { entities: self.entities.clone(), of: self.of.clone(), ..*self }
    }
}

impl<T> fmt::Debug for WideQuery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WideQuery")
            .field("entities", &self.entities)
            .field("partition", &self.of)
            .field("limit", &self.limit)
            .finish()
    }
}
