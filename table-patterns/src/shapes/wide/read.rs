//! Reading rows that belong together.

use std::future::ready;
use std::sync::Arc;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::model::{Entity, Key, TableName};
use table_core::query::Page;
use table_core::store::{Error, ErrorKind, KeyOrder, Result, TableStore, TableStoreExt};

use super::rows::{Seen, Stored, assemble, logical, prefix, query, query_all, split};
use crate::rows::conflict::{Conflicts, told_of};

/// Reads the entities of a table.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) table: TableName,
    pub(super) attempts: u32,
}

impl Reader {
    pub(super) async fn read(&self, key: &Key) -> Result<Option<Stored>> {
        let found = self.whole(key.partition(), &prefix(key, self.store.profile())).await;
        match found.map_err(|error| told_of(key, error))? {
            Some(other) if other.key != *key => Err(Error::corrupt(format!(
                "the rows of the wide entities {key} and {} have one hash; rename one of them",
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
                Seen::Nothing => return Ok(None),
                Seen::Whole(stored) => return Ok(Some(stored)),
                // Whoever changed rows after the head was read changed the head as well: the second read starts with another.
                Seen::Torn(head) if head_first && head.is_some() && head == torn_before => {
                    return Err(self.damaged(partition, prefix));
                }
                Seen::Torn(head) => {
                    torn_before = head;
                    conflicts.wait(self.torn(partition, prefix)).await?;
                }
            }
        }
    }

    /// The entities of a partition, or of all, in the order of their rows, after the one with this prefix.
    pub(super) fn scan(
        &self,
        partition: Option<&str>,
        after: Option<&str>,
    ) -> impl Stream<Item = Result<Stored>> + Send + use<> {
        let pages = self.pages(partition, after);
        let reader = self.clone();
        let groups = pages.chain(stream::iter([Ok(Page { items: Vec::new(), continuation: None })])).scan(
            Vec::new(),
            |open, page| {
                let page = page.map(|page| cut(open, page));
                ready(Some(page))
            },
        );
        let entities = groups.map_ok(|groups| stream::iter(groups.into_iter().map(Ok))).try_flatten();
        entities.and_then(move |rows| settle(reader.clone(), rows)).try_filter_map(|found| ready(Ok(found)))
    }

    /// Pages that own what they need.
    fn pages(
        &self,
        partition: Option<&str>,
        after: Option<&str>,
    ) -> impl Stream<Item = Result<Page<Entity>>> + Send + use<> {
        let query = query_all(partition, after);
        let (store, table) = (Arc::clone(&self.store), self.table.clone());
        stream::try_unfold(Some(None), move |from: Option<Option<_>>| {
            let (store, table, query) = (Arc::clone(&store), table.clone(), query.clone());
            async move {
                let Some(from) = from else { return Ok(None) };
                let page = store.query(&table, &query, from.as_ref()).await?;
                let next = page.continuation.clone().map(Some);
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
            "the rows ({partition}, {prefix}…) of the table '{}' do not belong together, and nobody is writing \
             them: something other than this library has changed them",
            self.table
        ))
    }
}

/// The groups of rows that are complete; the last one stays open, unless this is the empty page of the end.
fn cut(open: &mut Vec<Entity>, page: Page<Entity>) -> Vec<Vec<Entity>> {
    let ends = page.items.is_empty() && page.continuation.is_none();
    let mut groups = Vec::new();
    for row in page.items {
        let other = open.last().is_some_and(|last| entity_of(last) != entity_of(&row));
        if other {
            groups.push(std::mem::take(open));
        }
        open.push(row);
    }
    if ends && !open.is_empty() {
        groups.push(std::mem::take(open));
    }
    groups
}

/// What all rows of an entity have in common.
fn entity_of(row: &Entity) -> (&str, &str) {
    (row.key().partition(), prefix_of(row))
}

fn prefix_of(row: &Entity) -> &str {
    split(row.key().row()).map_or_else(|| row.key().row(), |(prefix, _)| prefix)
}

/// The entity of rows that were read in passing, or as it is now.
async fn settle(reader: Reader, rows: Vec<Entity>) -> Result<Option<Stored>> {
    let Some(first) = rows.first().map(|row| (row.key().partition().to_owned(), prefix_of(row).to_owned()))
    else {
        return Ok(None);
    };
    let key = rows.iter().find_map(logical);
    match assemble(rows)? {
        Seen::Whole(stored) => Ok(Some(stored)),
        Seen::Nothing | Seen::Torn(_) => {
            let found = reader.whole(&first.0, &first.1).await;
            found.map_err(|error| match key {
                Some(key) => told_of(&key, error),
                None => error,
            })
        }
    }
}
