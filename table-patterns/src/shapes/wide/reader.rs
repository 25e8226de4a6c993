//! Reads of whole entities: one entity, or all entities of a partition or of the table.

use std::future::ready;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Page, Query, ReadablePage, UnreadableEntity};
use table_core::store::{
    Conflicts, CycleDetector, Error, ErrorKind, KeyOrder, Result, TableStore, TableStoreExt,
};

use super::rows::{
    ReadRows, StoredWide, assemble, logical, prefix, query, query_all, query_table, split,
};
use crate::rows::with_entity_key;

/// Reads the entities of a table.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) table: TableName,
    pub(super) attempts: u32,
}

impl Reader {
    /// Reads the entity with this key.
    pub(super) async fn read(&self, key: &Key) -> Result<Option<StoredWide>> {
        let found = self
            .whole(key.partition(), &prefix(key, self.store.profile()))
            .await;
        match found.map_err(|error| with_entity_key(key, error))? {
            Some(other) if other.key != *key => Err(Error::corrupt(format!(
                "the RowKeys of the wide entities {key} and {} have the same hash: rename one of them",
                other.key
            ))),
            found => Ok(found),
        }
    }

    /// Reads until all rows are of one state.
    async fn whole(&self, partition: &str, prefix: &str) -> Result<Option<StoredWide>> {
        let head_first = self.store.profile().order == KeyOrder::Sorted;
        let mut conflicts = Conflicts::new(self.attempts);
        let mut torn_before = None;
        loop {
            let rows = self
                .store
                .query_all(&self.table, &query(partition, prefix))
                .await?;
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
        let end = Page {
            items: Vec::new(),
            continuation: None,
        };
        let groups = pages
            .chain(stream::iter([Ok(ReadablePage::from(end))]))
            .scan(OpenGroup::default(), |open, page| {
                ready(Some(page.map(|page| open.groups(page))))
            });
        let entities = groups
            .map_ok(|groups| stream::iter(groups.into_iter().map(Ok)))
            .try_flatten();
        entities
            .and_then(move |group| read_group(reader.clone(), group))
            .try_filter_map(|found| ready(Ok(found)))
    }

    /// The pages of rows; the stream owns the store.
    fn pages(&self, query: Query) -> impl Stream<Item = Result<ReadablePage>> + Send + use<> {
        let (store, table) = (Arc::clone(&self.store), self.table.clone());
        let query = query.with_unreadable();
        // The state: `None` after the last page; otherwise the token of the next page, which the first page does not need.
        let start = Some((None, CycleDetector::default()));
        stream::try_unfold(start, move |state: Option<(Option<_>, CycleDetector)>| {
            let (store, table, query) = (Arc::clone(&store), table.clone(), query.clone());
            async move {
                let Some((from, mut cycles)) = state else {
                    return Ok(None);
                };
                let page = store.query(&table, &query, from.as_ref()).await?;
                let next = page.page.continuation.clone();
                if let Some(next) = &next {
                    cycles.add(next, page.page.items.len() + page.unreadable.len())?;
                }
                Ok(Some((page, next.map(|next| (Some(next), cycles)))))
            }
        })
    }

    fn torn(&self, partition: &str, prefix: &str) -> Error {
        let key = format!("({partition}, {prefix}…)");
        ErrorKind::PreconditionFailed {
            table: self.table.to_string(),
            key,
        }
        .into()
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
    pub(super) read: std::result::Result<StoredWide, UnreadableEntity>,
}

impl Scanned {
    pub(super) fn into_stored(self) -> Result<StoredWide> {
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
        let ReadablePage {
            mut page,
            unreadable,
        } = page;
        if !unreadable.is_empty() {
            // A row without properties takes the place of one that cannot be read, so that its entity has a group.
            page.items
                .extend(unreadable.iter().map(|row| Entity::from(row.key.clone())));
            page.items.sort_by(|a, b| a.key().cmp(b.key()));
            self.unreadable.extend(unreadable);
        }
        let groups = group_by_entity(&mut self.rows, page);
        groups
            .into_iter()
            .map(|rows| self.with_error(rows))
            .collect()
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
        let is_other_entity = open
            .last()
            .is_some_and(|last| shared_prefix(last.key()) != shared_prefix(row.key()));
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
    (
        key.partition(),
        split(key.row()).map_or_else(|| key.row(), |(prefix, _)| prefix),
    )
}

/// Reads the entity of rows that a scan has found. `None` if the entity was deleted meanwhile.
async fn read_group(reader: Reader, group: EntityRows) -> Result<Option<Scanned>> {
    let EntityRows { rows, error } = group;
    let Some(first) = rows.first().map(|row| row.key().clone()) else {
        return Ok(None);
    };
    let (partition, prefix) = shared_prefix(&first);
    let (partition, prefix) = (partition.to_owned(), prefix.to_owned());
    let key = rows.iter().find_map(logical);
    // Only the head row has the logical key. Without a head row, the report names the first row.
    let reported = key.clone().unwrap_or(first);
    let unreadable = |error| {
        Err(UnreadableEntity {
            key: reported,
            error,
        })
    };
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
    Ok(Some(Scanned {
        partition,
        prefix,
        read,
    }))
}

/// Assembles the entity of rows that a scan has read; reads the entity again if the rows are of different writes.
async fn assemble_or_reread(
    reader: &Reader,
    rows: Vec<Entity>,
    partition: &str,
    prefix: &str,
) -> Result<Option<StoredWide>> {
    match assemble(rows)? {
        ReadRows::Whole(stored) => Ok(Some(stored)),
        ReadRows::Nothing | ReadRows::Torn(_) => reader.whole(partition, prefix).await,
    }
}

/// Whether an error concerns the rows of one entity alone: they are damaged, or the store cannot decrypt them.
fn is_of_one_entity(error: &Error) -> bool {
    matches!(
        error.root().kind(),
        ErrorKind::Decode(_) | ErrorKind::Storage(_) | ErrorKind::Encryption(_)
    )
}
