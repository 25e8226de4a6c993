use std::sync::Arc;

use object_store::path::Path;
use table_core::engine::check_operation;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::store::{Error, Operation, Result};

use super::resources::Resources;
use crate::rows::encrypted::check_no_plaintext;

/// Where an entity is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the store.
    pub store: String,
    /// The table.
    pub table: TableName,
    /// The key within it.
    pub key: Key,
}

impl Place {
    /// A key in a table of a named store.
    pub fn new(store: impl Into<String>, table: TableName, key: Key) -> Self {
        Self { store: store.into(), table, key }
    }
}

/// One step of a transaction: doing it again changes nothing more.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// Writes an entity, whatever was there.
    Upsert {
        /// The name of the store.
        store: String,
        /// The table.
        table: TableName,
        /// The entity.
        entity: Entity,
    },
    /// Writes the properties of an entity beside those that are there, or the entity.
    UpsertMerge {
        /// The name of the store.
        store: String,
        /// The table.
        table: TableName,
        /// The entity.
        entity: Entity,
    },
    /// Replaces an entity if it exists: one that was deleted meanwhile stays deleted.
    ReplaceIfExists {
        /// The name of the store.
        store: String,
        /// The table.
        table: TableName,
        /// The entity.
        entity: Entity,
    },
    /// Removes an entity if it exists.
    DeleteIfExists(Place),
    /// Writes an entity as it is then to another place and removes it from the first, in the version that
    /// was written: a change in between is moved as well, not lost. Fails where it is neither here nor there, and where the row
    /// is not all of it: see [`Mover`](super::Mover).
    Move {
        /// Where it is.
        from: Place,
        /// Where it goes, whatever was there.
        to: Place,
    },
    /// Writes a blob, whatever was there.
    PutBlob {
        /// The name of the blob store.
        blobs: String,
        /// The path in it.
        path: String,
        /// What the blob holds.
        bytes: Vec<u8>,
    },
    /// Removes a blob if it exists.
    DeleteBlob {
        /// The name of the blob store.
        blobs: String,
        /// The path in it.
        path: String,
    },
    /// Calls a [`StepHandler`](super::StepHandler).
    Handle {
        /// The name of the handler.
        handler: String,
        /// What it is given.
        payload: Vec<u8>,
    },
}

impl Step {
    /// The operation on a table, with the name of its store, if it is one.
    pub(super) fn operation(&self) -> Option<(&str, &TableName, Operation)> {
        Some(match self {
            Self::Upsert { store, table, entity } => {
                (store, table, Operation::InsertOrReplace(entity.clone()))
            }
            Self::UpsertMerge { store, table, entity } => {
                (store, table, Operation::InsertOrMerge(entity.clone()))
            }
            Self::ReplaceIfExists { store, table, entity } => {
                (store, table, Operation::Replace(entity.clone(), IfMatch::Any))
            }
            Self::DeleteIfExists(Place { store, table, key }) => {
                (store, table, Operation::Delete(key.clone(), IfMatch::Any))
            }
            _ => return None,
        })
    }

    /// Refuses what only processes elsewhere can do, which have what it names.
    pub(super) fn check_here(&self, resources: &Resources) -> Result<()> {
        match self {
            Self::Upsert { store, .. }
            | Self::UpsertMerge { store, .. }
            | Self::ReplaceIfExists { store, .. }
            | Self::DeleteIfExists(Place { store, .. }) => resources.store(store).map(drop),
            Self::Move { from, to } => resources.store(&from.store).and(resources.store(&to.store)).map(drop),
            Self::PutBlob { blobs, .. } | Self::DeleteBlob { blobs, .. } => resources.blobs(blobs).map(drop),
            Self::Handle { handler, .. } => resources.handler(handler).map(drop),
        }
    }

    /// Refuses what could never be done.
    pub(super) fn check(&self, resources: &Resources) -> Result<()> {
        if let Some((store, table, operation)) = self.operation() {
            let Some(store) = resources.known_store(store)? else { return Ok(()) };
            if let Some(entity) = operation.entity() {
                check_no_plaintext(&**store, table, entity, "a plan")?;
            }
            return check_operation(store.profile(), &operation);
        }
        match self {
            Self::Move { from, to } => check_move(from, to, resources),
            Self::PutBlob { blobs, path, .. } | Self::DeleteBlob { blobs, path } => {
                blob_path(path)?;
                resources.known_blobs(blobs)
            }
            Self::Handle { handler, .. } => resources.known_handler(handler),
            _ => Ok(()),
        }
    }
}

fn check_move(from: &Place, to: &Place, resources: &Resources) -> Result<()> {
    let stores = (resources.known_store(&from.store)?, resources.known_store(&to.store)?);
    let one_store = match stores {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => from.store == to.store,
    };
    if one_store && from.table == to.table && from.key == to.key {
        return Err(Error::invalid_request(format!("{} would be moved to where it is", from.key)));
    }
    Ok(())
}

pub(super) fn blob_path(path: &str) -> Result<Path> {
    Path::parse(path).map_err(|e| Error::invalid_request(format!("{path:?} is no path of a blob: {e}")))
}

/// What entities, blobs and payloads hold is not shown: it is the application's.
impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Upsert { store, table, entity } => write!(f, "upsert {} in {store}/{table}", entity.key()),
            Self::UpsertMerge { store, table, entity } => {
                write!(f, "merge {} in {store}/{table}", entity.key())
            }
            Self::ReplaceIfExists { store, table, entity } => {
                write!(f, "replace {} in {store}/{table}", entity.key())
            }
            Self::DeleteIfExists(Place { store, table, key }) => {
                write!(f, "delete {key} in {store}/{table}")
            }
            Self::Move { from, to } => {
                write!(f, "move {} in {}/{} ", from.key, from.store, from.table)?;
                write!(f, "to {} in {}/{}", to.key, to.store, to.table)
            }
            Self::PutBlob { blobs, path, bytes } => {
                write!(f, "put {} bytes at {path:?} in {blobs}", bytes.len())
            }
            Self::DeleteBlob { blobs, path } => write!(f, "delete {path:?} in {blobs}"),
            Self::Handle { handler, payload } => write!(f, "{handler} with {} bytes", payload.len()),
        }
    }
}
