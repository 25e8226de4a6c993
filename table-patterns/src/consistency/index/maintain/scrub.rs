use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::manifest::IndexState;
use table_core::model::{Entity, IfMatch};
use table_core::query::{Continuation, Query};
use table_core::store::{Error, Operation, Result};

use crate::entry::{Entry, Index, Shape};
use crate::index::handle::IndexedEntities;
use crate::index::read::entries::is_entity;
use crate::journal::{holders, is_pending, is_unique_row_property};

/// Whether a scrub only reports or also repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubMode {
    /// Counts differences.
    Report,
    /// Counts differences, deletes dangling entries and adds missing entries.
    Repair,
}

/// The result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ScrubReport {
    /// Entries that were checked.
    pub entries: usize,
    /// Dangling entries: the entity does not exist, or has another entry.
    pub dangling: usize,
    /// Entities that were checked.
    pub entities: usize,
    /// Entries that were missing or had another payload.
    pub missing: usize,
    /// Entities whose entry's key belongs to another entity: a scrub cannot repair these.
    pub taken: usize,
}

/// The position at which a scrub continues. Print it with [`Display`](fmt::Display), parse it with
/// [`str::parse`]. It contains a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubCursor {
    /// `false`: the scrub checks entries for their entities; `true`: the scrub checks entities for their entries.
    dangling_done: bool,
    at: Option<Continuation>,
    /// The partition whose summaries were last recounted.
    partition: Option<String>,
}

impl ScrubCursor {
    /// Whether the scrub checks entities for missing entries.
    pub(crate) const fn is_among_entities(&self) -> bool {
        self.dangling_done
    }
}

/// `dangling` or `missing` with a continuation, or `after` with a partition.
impl fmt::Display for ScrubCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(partition) = &self.partition {
            return write!(f, "after {partition}");
        }
        f.write_str(if self.dangling_done { "missing" } else { "dangling" })?;
        self.at.as_ref().map_or(Ok(()), |at| write!(f, " {at}"))
    }
}

impl FromStr for ScrubCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, rest) = text.split_once(' ').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let at =
            |done| Ok(Self { dangling_done: done, at: rest.map(str::parse).transpose()?, partition: None });
        match (kind, rest) {
            ("dangling", _) => at(false),
            ("missing", _) => at(true),
            ("after", Some(partition)) => {
                Ok(Self { partition: Some(partition.to_owned()), ..Self::default() })
            }
            _ => Err(Error::invalid_request(format!(
                "{text:?} is not the cursor of a scrub: pass the text exactly as `ScrubCursor` printed it"
            ))),
        }
    }
}

impl IndexedEntities {
    /// Compares an index with its entities, in both directions, while writers go on. A scrub never deletes an
    /// entry whose entity was rewritten after the read, and never adds an entry for an entity that changed
    /// after the read.
    ///
    /// Cost: the pages of the index and of the table; 1 request per entry and per entity, with
    /// [`IndexOptions::concurrency`](crate::index::IndexOptions) in parallel; 2 requests to remove a dangling entry;
    /// the requests of a write to add a missing entry.
    ///
    /// # Errors
    /// The index is unknown, or neither building nor readable; a list has a newer format than this program
    /// reads; an error of the store.
    pub async fn scrub(&self, index: &str, mode: ScrubMode) -> Result<ScrubReport> {
        let mut report = ScrubReport::default();
        let mut cursor = Some(ScrubCursor::default());
        while let Some(at) = cursor {
            cursor = self.scrub_page(index, mode, at, &mut report).await?;
        }
        Ok(report)
    }

    /// Scrubs one page and returns the cursor of the next; `None` at the end. A caller that stores the cursor
    /// as text continues after a crash with the page that was under way.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::TableStore;
    /// use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
    /// use table_patterns::index::{ScrubCursor, ScrubMode, ScrubReport};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let table = TableName::new("People")?;
    /// # store.create_table(&table).await?;
    /// # let by_city = Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}")?;
    /// # let people = IndexedEntities::open(store, table, vec![by_city], IndexOptions::local()).await?;
    /// # people.insert(Entity::new("p", "1")?.with("City", "oslo")).await?;
    /// let mut report = ScrubReport::default();
    /// let mut stored = Some(ScrubCursor::default().to_string());
    /// while let Some(text) = stored {
    ///     let next = people.scrub_page("city", ScrubMode::Repair, text.parse()?, &mut report).await?;
    ///     stored = next.map(|cursor| cursor.to_string()); // where the next process finds it
    /// }
    /// assert_eq!((report.entries, report.dangling, report.missing), (1, 0, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`scrub`](Self::scrub).
    pub async fn scrub_page(
        &self,
        index: &str,
        mode: ScrubMode,
        cursor: ScrubCursor,
        report: &mut ScrubReport,
    ) -> Result<Option<ScrubCursor>> {
        let index = self.complete(index, mode).await?;
        if matches!(index.shape(), Shape::Summary { .. }) {
            let partition = self.total_next(&index, mode, cursor.partition.as_deref(), report).await?;
            return Ok(partition.map(|p| ScrubCursor { partition: Some(p), ..ScrubCursor::default() }));
        }
        if cursor.dangling_done {
            let at = self.scrub_missing(&index, mode, cursor.at.as_ref(), report).await?;
            return Ok(at.map(|at| ScrubCursor { dangling_done: true, at: Some(at), partition: None }));
        }
        let at = self.scrub_dangling(&index, mode, cursor.at.as_ref(), report).await?;
        Ok(Some(ScrubCursor { dangling_done: at.is_none(), at, partition: None }))
    }

    /// An index in a state in which every entity is to have an entry. In any other state, an entry is not
    /// missing, and an added entry could outlive a drop.
    async fn complete(&self, name: &str, mode: ScrubMode) -> Result<Arc<Index>> {
        if mode == ScrubMode::Repair {
            self.set.check_writes()?;
        }
        drop(self.set.permission(&**self.store()).await?);
        let index = self.set.find(name)?;
        self.set.check_kept(&index)?;
        self.check_complete(&index).map(|()| index)
    }

    pub(crate) fn check_complete(&self, index: &Index) -> Result<()> {
        let name = index.name();
        match self.state(index.id()) {
            IndexState::Building | IndexState::Readable => Ok(()),
            state => Err(Error::invalid_request(format!(
                "the index '{name}' of the table '{}' is {state}, so entities may lack entries: call `build` before a scrub",
                self.table()
            ))),
        }
    }

    /// Checks a page of entries. The order is essential: each row is read, **then** its entity, then the row is
    /// deleted under its ETag.
    pub(crate) async fn scrub_dangling(
        &self,
        index: &Index,
        mode: ScrubMode,
        from: Option<&Continuation>,
        report: &mut ScrubReport,
    ) -> Result<Option<Continuation>> {
        let page = self.query_rows(index, &Self::rows_of(index), from).await?;
        if index.shape().is_shared() {
            for row in page.items {
                self.check_shared(index, row, mode, report).await?;
            }
            return Ok(page.continuation);
        }
        report.entries += page.items.len();
        let checks = stream::iter(page.items).map(|entry| self.check_entry(index, entry, mode));
        let found: Vec<bool> = checks.buffer_unordered(self.at_once()).try_collect().await?;
        report.dangling += found.into_iter().filter(|dangling| *dangling).count();
        Ok(page.continuation)
    }

    async fn check_entry(&self, index: &Index, entry: Entity, mode: ScrubMode) -> Result<bool> {
        // A reservation belongs to its write, which settles or releases the reservation.
        if is_pending(&entry) {
            return Ok(false);
        }
        let at = self.location(index, entry.key());
        let owner = self.read(&Entry::owner_of(&entry)?).await?;
        if owner.map_or(Ok(false), |owner| index.has_entry_at(self.table(), &owner, &at))? {
            return Ok(false);
        }
        let condition = entry.etag().map_or(IfMatch::Any, IfMatch::from);
        if mode == ScrubMode::Report {
            return Ok(true);
        }
        match self.store().write(&at.table, Operation::Delete(at.key, condition)).await {
            Ok(_) => Ok(true),
            // A writer changed the entry after the read: the entry is recent.
            Err(e) if (e.is_precondition_failed() || e.is_entity_not_found()) && !e.is_ambiguous() => {
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    async fn scrub_missing(
        &self,
        index: &Index,
        mode: ScrubMode,
        from: Option<&Continuation>,
        report: &mut ScrubReport,
    ) -> Result<Option<Continuation>> {
        let page = self.store().query(self.table(), &Query::new(), from).await?;
        let entities: Vec<_> = page.items.into_iter().filter(is_entity).collect();
        report.entities += entities.len();
        let entities =
            if index.shape().is_list() { self.not_listed(index, entities).await? } else { entities };
        let checks = stream::iter(entities).map(|entity| self.check_entity(index, entity, mode));
        let found: Vec<Found> = checks.buffer_unordered(self.at_once()).try_collect().await?;
        report.missing += found.iter().filter(|found| **found == Found::Missing).count();
        report.taken += found.iter().filter(|found| **found == Found::Taken).count();
        Ok(page.continuation)
    }

    /// Compares an entity that was read with its entry, then reads the entity again. Only an entity in the same
    /// version misses the entry; the journal adds it.
    async fn check_entity(&self, index: &Index, entity: Entity, mode: ScrubMode) -> Result<Found> {
        let wanted = index.entries(self.table(), &entity)?;
        if wanted.is_empty() {
            return Ok(Found::InStep);
        }
        if index.shape().is_shared() {
            if self.copies_agree(index, &entity).await? != Some(false) && !index.shape().is_list() {
                return Ok(Found::InStep);
            }
            return self.add_missing(entity, mode).await;
        }
        let (mut is_missing, mut is_taken) = (false, false);
        for wanted in wanted {
            let row = self.store().get(&wanted.location.table, &wanted.location.key, None).await?;
            if row.as_ref().is_some_and(|row| agrees(&wanted, row)) {
                continue;
            }
            let holders = row.as_ref().map(holders).transpose()?;
            let is_anothers = holders.as_ref().is_some_and(|holders| !holders.contains(&wanted.owner));
            if holders.is_some_and(|holders| holders[1..].contains(&wanted.owner)) {
                // A move has brought the entity here, and the move settles the entry.
                continue;
            }
            is_taken |= is_anothers;
            is_missing |= !is_anothers;
        }
        match (is_taken, is_missing) {
            (true, _) => Ok(Found::Taken),
            (false, true) => self.add_missing(entity, mode).await,
            (false, false) => Ok(Found::InStep),
        }
    }

    /// Adds the entry of an entity, unless the entity has changed after the read.
    async fn add_missing(&self, entity: Entity, mode: ScrubMode) -> Result<Found> {
        let again = self.read(entity.key()).await?;
        let Some(again) = again.filter(|e| e.etag() == entity.etag()) else { return Ok(Found::InStep) };
        if mode == ScrubMode::Report {
            return Ok(Found::Missing);
        }
        match self.rewrite(again).await {
            Ok(_) => Ok(Found::Missing),
            Err(e) if e.is_unique_violation() || e.is_key_collision() => Ok(Found::Taken),
            Err(e) => Err(e),
        }
    }
}

/// The result of checking an entity's entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The entry exists, or the entity has just changed.
    InStep,
    /// The entity had no entry.
    Missing,
    /// The entry's key belongs to another entity.
    Taken,
}

/// Whether a row is the entry: the same owner and payload, and no property of an older payload.
fn agrees(wanted: &Entry, row: &Entity) -> bool {
    let wanted = wanted.to_entity();
    let payload = row.properties().iter().filter(|p| !is_unique_row_property(p.name()));
    // The comparison includes marks: an older entry with a plaintext value of an encrypted property is written again.
    wanted.properties().iter().all(|p| row.properties().find(p.name()) == Some(p))
        && payload.count() == wanted.properties().iter().count()
}
