//! The steps of a transaction, and the checks of a step before its plan is committed.

use std::collections::BTreeSet;
use std::sync::Arc;

use table_core::engine::check_operation;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::store::{Error, Operation, Result};

use super::blob_step::check_path;
use super::resources::Resources;
use crate::rows::encrypted::check_no_plaintext;

/// The location of an entity: a store, a table and a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the store.
    pub store: String,
    /// The table.
    pub table: TableName,
    /// The key of the entity.
    pub key: Key,
}

impl Place {
    /// The location of a key in a table of a named store.
    pub fn new(store: impl Into<String>, table: TableName, key: Key) -> Self {
        Self {
            store: store.into(),
            table,
            key,
        }
    }
}

/// One step of a transaction. Every step is idempotent: a repetition has no further effect.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// Inserts or replaces an entity.
    Upsert {
        /// The name of the store.
        store: String,
        /// The table.
        table: TableName,
        /// The entity.
        entity: Entity,
    },
    /// Inserts an entity, or merges its properties into the stored entity.
    UpsertMerge {
        /// The name of the store.
        store: String,
        /// The table.
        table: TableName,
        /// The entity.
        entity: Entity,
    },
    /// Replaces an entity if it exists. An entity that another writer has deleted stays deleted.
    ReplaceIfExists {
        /// The name of the store.
        store: String,
        /// The table.
        table: TableName,
        /// The entity.
        entity: Entity,
    },
    /// Deletes an entity if it exists.
    DeleteIfExists(Place),
    /// Moves an entity, as it is when the step runs: copies it to the target, then deletes the version that was
    /// copied. A concurrent change is moved too, never lost.
    ///
    /// Fails if neither location has the entity, or if the row is only a part of the entity: for those entities see
    /// [`Mover`](super::Mover).
    Move {
        /// The source.
        from: Place,
        /// The target; an entity there is replaced.
        to: Place,
    },
    /// Writes a blob, or overwrites the stored one.
    PutBlob {
        /// The name of the blob store.
        blobs: String,
        /// The path in the blob store.
        path: String,
        /// The content of the blob.
        bytes: Vec<u8>,
    },
    /// Deletes a blob if it exists.
    DeleteBlob {
        /// The name of the blob store.
        blobs: String,
        /// The path in the blob store.
        path: String,
    },
    /// Calls a [`StepHandler`](super::StepHandler).
    Handle {
        /// The name of the handler.
        handler: String,
        /// The bytes that the handler receives.
        payload: Vec<u8>,
    },
}

impl Step {
    /// The step as one operation, with the name of its store; `None` for other steps.
    pub(super) fn operation(&self) -> Option<(&str, &TableName, Operation)> {
        Some(match self {
            Self::Upsert {
                store,
                table,
                entity,
            } => (store, table, Operation::InsertOrReplace(entity.clone())),
            Self::UpsertMerge {
                store,
                table,
                entity,
            } => (store, table, Operation::InsertOrMerge(entity.clone())),
            Self::ReplaceIfExists {
                store,
                table,
                entity,
            } => (
                store,
                table,
                Operation::Replace(entity.clone(), IfMatch::Any),
            ),
            Self::DeleteIfExists(Place { store, table, key }) => {
                (store, table, Operation::Delete(key.clone(), IfMatch::Any))
            }
            _ => return None,
        })
    }

    /// Checks that this process has the stores and handlers that the step names. Other workers may have them.
    pub(super) fn check_resources(&self, resources: &Resources) -> Result<()> {
        match self {
            Self::PutBlob { blobs, .. } | Self::DeleteBlob { blobs, .. } => {
                resources.blobs(blobs).map(drop)
            }
            Self::Handle { handler, .. } => resources.handler(handler).map(drop),
            _ => self
                .entities()
                .into_iter()
                .try_for_each(|(store, ..)| resources.store(store).map(drop)),
        }
    }

    /// The entities that the step writes or deletes: the name of the store, the table and the key of each.
    pub(super) fn entities(&self) -> Vec<(&str, &TableName, &Key)> {
        match self {
            Self::Upsert {
                store,
                table,
                entity,
            }
            | Self::UpsertMerge {
                store,
                table,
                entity,
            }
            | Self::ReplaceIfExists {
                store,
                table,
                entity,
            } => vec![(store, table, entity.key())],
            Self::DeleteIfExists(Place { store, table, key }) => vec![(store, table, key)],
            Self::Move { from, to } => {
                vec![
                    (&from.store, &from.table, &from.key),
                    (&to.store, &to.table, &to.key),
                ]
            }
            Self::PutBlob { .. } | Self::DeleteBlob { .. } | Self::Handle { .. } => Vec::new(),
        }
    }

    /// Checks the step before the commit. Names that only other workers have are not checked.
    ///
    /// # Errors
    /// No worker could ever do the step.
    pub(super) fn check(&self, resources: &Resources) -> Result<()> {
        if let Some((store, table, operation)) = self.operation() {
            // Only a store of this process can be asked for its limits. Otherwise the worker that does the step checks it.
            let Some(store) = resources.known_store(store)? else {
                return Ok(());
            };
            if let Some(entity) = operation.entity() {
                check_no_plaintext(&**store, table, entity, "a plan")?;
            }
            return check_operation(store.profile(), &operation);
        }
        match self {
            Self::Move { from, to } => check_move(from, to, resources),
            Self::PutBlob { blobs, path, .. } | Self::DeleteBlob { blobs, path } => {
                check_path(path)?;
                resources.known_blobs(blobs)
            }
            Self::Handle { handler, .. } => resources.known_handler(handler),
            _ => Ok(()),
        }
    }
}

fn check_move(from: &Place, to: &Place, resources: &Resources) -> Result<()> {
    // A move copies and then deletes: with one place for both, it would delete the entity.
    let is_same_store =
        StoreIdentity::of(&from.store, resources)? == StoreIdentity::of(&to.store, resources)?;
    if is_same_store && from.table == to.table && from.key == to.key {
        return Err(Error::misuse(format!(
            "a move of {} has the same source and target",
            from.key
        )));
    }
    Ok(())
}

/// What distinguishes one store from another: two names can stand for one store.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum StoreIdentity<'a> {
    /// The address of a store of this process.
    Known(usize),
    /// The name of a store that only other workers have.
    Named(&'a str),
}

impl<'a> StoreIdentity<'a> {
    fn of(name: &'a str, resources: &Resources) -> Result<Self> {
        let known = resources.known_store(name)?;
        Ok(known.map_or(Self::Named(name), |store| {
            Self::Known(Arc::as_ptr(store).cast::<()>().addr())
        }))
    }
}

/// Checks that steps which are done at the same time write different rows and blobs.
///
/// # Errors
/// Two of them write the same row or blob: which of them wins would be left to chance.
pub(super) fn check_independent(steps: &[Step], resources: &Resources) -> Result<()> {
    // The order of such steps is open: the last of two writers of one row would be random, and a repetition could end in another
    // order.
    let (mut rows, mut blob_paths) = (BTreeSet::new(), BTreeSet::new());
    for step in steps {
        if let Step::PutBlob { blobs, path, .. } | Step::DeleteBlob { blobs, path } = step
            && !blob_paths.insert((blobs, path))
        {
            return Err(not_independent(&format!("the blob {path:?} in {blobs}")));
        }
        for (store, table, key) in step.entities() {
            if !rows.insert((StoreIdentity::of(store, resources)?, table, key)) {
                return Err(not_independent(&format!("{key} in {store}/{table}")));
            }
        }
    }
    Ok(())
}

fn not_independent(target: &str) -> Error {
    Error::misuse(format!(
        "two steps that are done at the same time write {target}: append one of them after the others"
    ))
}

/// Prints no properties, blobs or payloads: they are the application's data and may be secret.
impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Upsert {
                store,
                table,
                entity,
            } => write!(f, "upsert {} in {store}/{table}", entity.key()),
            Self::UpsertMerge {
                store,
                table,
                entity,
            } => {
                write!(f, "merge {} in {store}/{table}", entity.key())
            }
            Self::ReplaceIfExists {
                store,
                table,
                entity,
            } => {
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
            Self::Handle { handler, payload } => {
                write!(f, "{handler} with {} bytes", payload.len())
            }
        }
    }
}
