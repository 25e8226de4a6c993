//! Where an interrupted copy goes on.

use sha2::{Digest, Sha256};
use table_core::model::{Entity, IfMatch, Key, SYSTEM_PREFIX, TableName, ValueRef};
use table_core::query::Continuation;
use table_core::store::{Error, Operation, Result, TableStore};

const NEXT: &str = "Next";
const ROWS: &str = "Rows";

/// The row of a named job, in the table it fills.
#[derive(Debug)]
pub(super) struct Checkpoint<'a> {
    store: &'a dyn TableStore,
    table: &'a TableName,
    key: Key,
}

/// How far a job came.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) next: Option<Continuation>,
    pub(super) rows: u64,
}

/// Whether this is a row of a copy job, which is never copied.
pub(super) fn is_checkpoint(key: &Key) -> bool {
    key.partition().strip_prefix(SYSTEM_PREFIX) == Some("copy")
}

impl<'a> Checkpoint<'a> {
    /// Names of jobs are any text, so the key has a hash of it.
    pub(super) fn new(
        store: &'a dyn TableStore,
        table: &'a TableName,
        job: &str,
        from: &TableName,
    ) -> Result<Self> {
        let hash = Sha256::digest(format!("{job}\n{}", from.to_lowercase()));
        let row: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { store, table, key: Key::new(format!("{SYSTEM_PREFIX}copy"), row)? })
    }

    /// How far the job came; the start, if it is new. One request.
    pub(super) async fn load(&self) -> Result<Progress> {
        let Some(row) = self.store.get(self.table, &self.key, None).await? else {
            return Ok(Progress::default());
        };
        match (row.get(NEXT), row.get(ROWS)) {
            (Some(ValueRef::String(next)), Some(ValueRef::Int64(rows))) => {
                Ok(Progress { next: Some(next.parse()?), rows: rows.cast_unsigned() })
            }
            _ => Err(Error::decode("copy job", &self.key, NEXT, "a continuation", "something else")),
        }
    }

    /// One request.
    pub(super) async fn save(&self, next: &Continuation, rows: u64) -> Result<()> {
        let row = Entity::from(self.key.clone());
        let row = row.with(NEXT, next.to_string()).with(ROWS, rows.cast_signed());
        self.store.write(self.table, Operation::InsertOrReplace(row)).await.map(drop)
    }

    /// The job is done. One request.
    pub(super) async fn clear(&self) -> Result<()> {
        match self.store.write(self.table, Operation::Delete(self.key.clone(), IfMatch::Any)).await {
            Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(()),
            other => other.map(drop),
        }
    }
}
