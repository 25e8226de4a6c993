//! The manifest rows of indexes, types and processes: reading and writing. docs/manifest.md describes the rows.

use table_core::manifest::{EntityType, IndexState, Manifest, RefusedRow, StoredIndex, StoredType};
use table_core::model::{
    ETag, Entity, IfMatch, Key, MANIFEST_PARTITION, PartitionKey, TableName, ValueRef,
};
use table_core::store::{Error, GroupTransaction, Operation, Result, TableStore};
use uuid::Uuid;

use super::processes::{Durations, ProcessRow};

/// The manifest of a table, for reading and writing.
#[derive(Clone, Debug)]
pub(crate) struct ManifestRows<'a> {
    pub(crate) store: &'a dyn TableStore,
    pub(crate) table: &'a TableName,
}

/// The content of the manifest.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) manifest: Manifest,
    pub(crate) table: TableRow,
    /// The registered processes, including ended processes whose rows remain.
    pub(crate) processes: Vec<ProcessRow>,
}

impl Loaded {
    /// The definition with this id or name that is not in force.
    pub(crate) fn not_in_force(&self, name: &str) -> Option<&StoredIndex> {
        let all = &self.manifest.not_in_force;
        all.iter()
            .find(|index| index.id() == name)
            .or_else(|| all.iter().find(|index| index.name == name))
    }

    /// The generation with this id, if it is in force.
    pub(crate) fn index(&self, id: &str) -> Option<&StoredIndex> {
        self.manifest.indexes.iter().find(|index| index.id() == id)
    }

    /// The encrypted properties of all types whose rows may be of this type.
    pub(crate) fn encrypted_of<'l>(&'l self, entity: &EntityType) -> impl Iterator<Item = &'l str> {
        let meets = |stored: &&StoredType| {
            stored
                .entity
                .as_ref()
                .is_none_or(|of| !of.is_disjoint_from(entity))
        };
        let types: Vec<_> = self.manifest.types.iter().filter(meets).collect();
        types
            .into_iter()
            .flat_map(|stored| &stored.encrypted)
            .map(String::as_str)
    }
}

impl ManifestRows<'_> {
    /// Reads the manifest. 1 request, and 1 for each other table that a definition names.
    pub(crate) async fn load(&self) -> Result<Loaded> {
        let mut manifest = Manifest::load(self.store, self.table).await?;
        manifest.refused = refused_rows(&manifest);
        let row = manifest.other(TableRow::NAME);
        let table = row.map(|row| {
            // Of a damaged row, only the version counts: a program that extends the row writes it again.
            let damaged = TableRow {
                etag: row.etag().cloned(),
                ..TableRow::default()
            };
            TableRow::read(row).unwrap_or(damaged)
        });
        let processes = manifest
            .others
            .iter()
            .filter_map(|row| ProcessRow::read(row).ok().flatten())
            .collect();
        Ok(Loaded {
            table: table.unwrap_or_default(),
            manifest,
            processes,
        })
    }

    /// Reads the row of one index in force, by its id. As many requests as [`load`](Self::load).
    pub(crate) async fn index(&self, id: &str) -> Result<Option<StoredIndex>> {
        let loaded = self.load().await?;
        Ok(loaded
            .manifest
            .indexes
            .into_iter()
            .find(|index| index.id() == id))
    }

    /// Writes the table's row and the rows of types, and inserts indexes, in one group. `false` if another program wrote one of the rows
    /// first. 1 request.
    pub(crate) async fn declare(
        &self,
        row: &TableRow,
        types: &[StoredType],
        indexes: &[StoredIndex],
    ) -> Result<bool> {
        let mut group =
            GroupTransaction::new(PartitionKey::new(MANIFEST_PARTITION)?, self.store.profile());
        // Under the row's ETag, also where the row stays the same: every program that opens the table for the first time or declares an index
        // writes this row, so one of two concurrent programs starts again with what the other one has declared.
        group.push(row.operation()?)?;
        for entity in types {
            group.push(entity.operation()?)?;
        }
        for index in indexes {
            group.push(Operation::Insert(index.to_entity()?))?;
        }
        match self.store.transact(self.table, group).await {
            Err(e) if e.is_conflict() => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Changes the state of an index under the ETag that was read. 1 request.
    pub(crate) async fn advance(
        &self,
        index: &mut StoredIndex,
        state: IndexState,
        progress: Option<String>,
    ) -> Result<()> {
        let patch: Entity = index.state_patch(state, progress.as_deref())?;
        let merge = Operation::Merge(patch, condition(index)?);
        let written = self.store.write(self.table, merge).await?;
        (index.state, index.progress, index.etag) = (state, progress, written.etag);
        Ok(())
    }

    /// Makes a definition a new one: delete-only, with this id. Writes the table's row too, as [`declare`](Self::declare) does. `false` if
    /// another program wrote one of the two rows first. 1 request.
    pub(crate) async fn renew(
        &self,
        row: &TableRow,
        index: &mut StoredIndex,
        renewal: Uuid,
    ) -> Result<bool> {
        let mut group =
            GroupTransaction::new(PartitionKey::new(MANIFEST_PARTITION)?, self.store.profile());
        group.push(row.operation()?)?;
        group.push(Operation::Merge(
            index.renewal_patch(renewal)?,
            condition(index)?,
        ))?;
        let written = match self.store.transact(self.table, group).await {
            Err(e) if e.is_conflict() => return Ok(false),
            other => other?,
        };
        index.etag = written.into_iter().nth(1).and_then(|written| written.etag);
        (index.state, index.progress, index.renewal) =
            (IndexState::DeleteOnly, None, Some(renewal));
        Ok(true)
    }

    /// Deletes a row, unless it is gone. 1 request.
    pub(crate) async fn remove_row(&self, key: &Key) -> Result<()> {
        match self
            .store
            .write(self.table, Operation::Delete(key.clone(), IfMatch::Any))
            .await
        {
            Err(e) if e.is_certainly_missing() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Deletes the row of an index, unless another program has deleted it. 1 request.
    pub(crate) async fn remove(&self, index: &StoredIndex) -> Result<()> {
        // In the version that was read: another program may have begun to build the index again.
        let delete = Operation::Delete(index.key()?, condition(index)?);
        match self.store.write(self.table, delete).await {
            Err(e) if e.is_certainly_missing() => Ok(()),
            other => other.map(drop),
        }
    }
}

/// The condition that the row of an index has not changed since the read.
fn condition(index: &StoredIndex) -> Result<IfMatch> {
    index
        .etag
        .as_ref()
        .map(IfMatch::from)
        .ok_or_else(|| Error::missing_etag(&index.id()))
}

const DURATIONS: [&str; 3] = ["LongestCache", "LongestRequest", "LongestLease"];
const ANY_TYPE: &str = "WrittenAsAnyType";
const BLOBS: &str = "BlobFolder";

/// Attempts to write the row while other processes change it.
pub(crate) const ROUNDS: usize = 16;

/// The table's row in its manifest. Its values only grow: a duration remains after its process has ended. It has the durations of
/// processes that opened the table in a store which only they wrote. Those have no [row of their own](super::processes), and the same
/// store may later be served to other processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableRow {
    /// The longest durations of processes without a row of their own.
    pub(crate) durations: Durations,
    /// Whether a program that may write entities of any type has opened the table.
    pub(crate) any_type: bool,
    /// The id of this table in the blob store, where another table may have the same name.
    pub(crate) blobs: Option<String>,
    etag: Option<ETag>,
}

impl TableRow {
    pub(crate) const NAME: &str = "table";

    /// What a process adds to the row; `durations` is zero for a process with a row of its own.
    pub(crate) fn of(has_blobs: bool, any_type: bool, durations: Durations) -> Self {
        let blobs = has_blobs.then(|| Uuid::new_v4().simple().to_string());
        Self {
            durations,
            any_type,
            blobs,
            etag: None,
        }
    }

    /// Whether no program has opened the table yet.
    pub(crate) const fn is_new(&self) -> bool {
        self.etag.is_none()
    }

    /// The union of this row and another.
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self {
            durations: self.durations.max(other.durations),
            any_type: self.any_type || other.any_type,
            blobs: self.blobs.clone().or_else(|| other.blobs.clone()),
            etag: self.etag.clone(),
        }
    }

    pub(crate) fn read(row: &Entity) -> Result<Self> {
        let any_type = row.get(ANY_TYPE) == Some(ValueRef::Boolean(true));
        let blobs = match row.get(BLOBS) {
            Some(ValueRef::String(id)) => Some(id.to_owned()),
            _ => None,
        };
        // At most the durations of a process: sweeps and changes of states wait for them, and any client of the table can write the row.
        let durations = Durations::read(row, DURATIONS)?.believed();
        Ok(Self {
            durations,
            any_type,
            blobs,
            etag: row.etag().cloned(),
        })
    }

    pub(crate) fn to_entity(&self) -> Result<Entity> {
        let row = self
            .durations
            .on(Entity::new(MANIFEST_PARTITION, Self::NAME)?, DURATIONS);
        let mut row = row.with(ANY_TYPE, self.any_type);
        if let Some(id) = &self.blobs {
            row.properties_mut().set(BLOBS, id.as_str());
        }
        Ok(row)
    }

    /// The operation that writes the row over the version that was read.
    pub(crate) fn operation(&self) -> Result<Operation> {
        let row = self.to_entity()?;
        Ok(match &self.etag {
            Some(etag) => Operation::Replace(row, IfMatch::from(etag)),
            None => Operation::Insert(row),
        })
    }
}

impl ManifestRows<'_> {
    /// Extends the row that was read by `more`, and returns the result. No request if the row has all of it
    /// already, otherwise 1; 2 more for each conflict with another process.
    pub(crate) async fn extend_table_row(
        &self,
        mut found: TableRow,
        more: &TableRow,
    ) -> Result<TableRow> {
        for _ in 0..ROUNDS {
            let wanted = found.with(more);
            // The first program to open the table writes the row, even without any value: `is_new` is false from then on.
            if wanted == found && !found.is_new() {
                return Ok(found);
            }
            match self.store.write(self.table, wanted.operation()?).await {
                Err(e) if e.is_conflict() => {}
                other => return other.map(|_| wanted),
            }
            found = self.load().await?.table;
        }
        Err(Error::precondition_failed(self.table, TableRow::NAME))
    }
}

impl ManifestRows<'_> {
    /// Removes rows of ended processes in the versions that were observed. 1 request for each.
    pub(crate) async fn remove_processes(&self, gone: &[ProcessRow]) -> Result<()> {
        for row in gone {
            let key = row.id.key()?;
            let etag = row.etag.clone().ok_or_else(|| Error::missing_etag(&key))?;
            match self
                .store
                .write(self.table, Operation::Delete(key, IfMatch::Exactly(etag)))
                .await
            {
                // The process has written its row again, or another process removed it.
                Err(e) if e.is_conflict() => {}
                other => other.map(drop)?,
            }
        }
        Ok(())
    }
}

/// The rows of a manifest that say nothing: rows of indexes and types, and damaged rows of processes and of the table.
pub(crate) fn refused_rows(manifest: &Manifest) -> Vec<RefusedRow> {
    let mut refused = manifest.refused.clone();
    for row in &manifest.others {
        let is_table = row.key().row() == TableRow::NAME;
        let read = if is_table {
            TableRow::read(row).map(drop)
        } else {
            ProcessRow::read(row).map(drop)
        };
        refused.extend(read.err().map(|reason| RefusedRow::new(row.key(), &reason)));
    }
    refused
}
