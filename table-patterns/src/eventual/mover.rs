//! Moves of whole entities, by the table that knows their index entries, blobs and rows.

use std::fmt;

use async_trait::async_trait;
use table_core::model::Key;
use table_core::store::{Error, ErrorKind, Outcome, Result};
use table_core::typed::{PlainTable, TableEntity};

use super::resources::{StepHandler, StepId};
use crate::spread::SpreadTable;
use crate::table::Table;
use crate::wide::WideTable;

/// A table that can move whole entities, with their index entries, blobs and rows.
#[async_trait]
pub trait Moves: fmt::Debug + Send + Sync + 'static {
    /// Moves an entity, as `move_to` of the table does, if there is one. Returns whether there was an entity at `key`.
    ///
    /// # Errors
    /// Those of `move_to`.
    async fn move_entity(&self, key: &Key, target: &Self, to: &Key) -> Result<bool>;

    /// Whether there is an entity at the key.
    ///
    /// # Errors
    /// The store's, or the entity cannot be decoded.
    async fn has(&self, key: &Key) -> Result<bool>;
}

macro_rules! moves {
    ($table:ident) => {
        #[async_trait]
        impl<T: TableEntity> Moves for $table<T> {
            async fn move_entity(&self, key: &Key, target: &Self, to: &Key) -> Result<bool> {
                match self.move_to(key, target, to).await {
                    Err(error)
                        if error.is_entity_not_found()
                            && error.outcome() == Outcome::NotApplied =>
                    {
                        Ok(false)
                    }
                    moved => moved.map(|()| true),
                }
            }

            async fn has(&self, key: &Key) -> Result<bool> {
                Ok(self.get(key).await?.is_some())
            }
        }
    };
}

moves!(Table);
moves!(PlainTable);
moves!(SpreadTable);
moves!(WideTable);

/// A [`StepHandler`] that moves entities from one table to another, or within one: for
/// [`EventualTransaction::move_by`](super::EventualTransaction::move_by).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::eventual::{Coordinator, EventualTransaction, Mover, Resources};
/// use table_patterns::journal::Acknowledge;
/// use table_patterns::queue::TableQueue;
/// use table_patterns::wide::WideTable;
///
/// #[derive(Debug, TableEntity)]
/// #[entity(wide)]
/// struct Form {
///     #[partition_key]
///     year: u16,
///     #[row_key]
///     number: u32,
///     text: String,
/// }
///
/// let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
/// let forms = WideTable::<Form>::new(store.clone(), "Forms")?;
/// let archive = WideTable::<Form>::new(store.clone(), "ArchivedForms")?;
/// forms.create_if_missing().await?;
/// archive.create_if_missing().await?;
/// forms.insert(&Form { year: 2013, number: 7, text: "…".into() }).await?;
///
/// let mover = Arc::new(Mover::new(forms.clone(), archive.clone()));
/// let resources = Resources::new().with_handler("archive forms", mover);
/// let queue = Arc::new(TableQueue::open(store.clone(), "Queues", "work").await?);
/// let coordinator = Coordinator::open(store, "Transactions", queue, resources).await?;
/// let key = Form::key(2013u16, 7u32)?;
/// let archiving = EventualTransaction::new().move_by("archive forms", key.key(), key.key());
/// coordinator.submit(&archiving, Acknowledge::Applied).await?;
/// assert!(forms.get(&key).await?.is_none() && archive.get(&key).await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Mover<M> {
    from: M,
    to: M,
}

impl<M: Moves> Mover<M> {
    /// A mover from one table to another, or within one table.
    pub const fn new(from: M, to: M) -> Self {
        Self { from, to }
    }
}

#[async_trait]
impl<M: Moves> StepHandler for Mover<M> {
    /// # Errors
    /// Those of `move_to` of the table. *Entity not found* if there is no entity, neither at the source nor at the target.
    async fn run(&self, _: StepId, payload: &[u8]) -> Result<()> {
        let (key, to) = keys(payload)?;
        // A repeated step finds no source any more. The target shows that it was done.
        if self.from.move_entity(&key, &self.to, &to).await? || self.to.has(&to).await? {
            return Ok(());
        }
        let (table, key) = (format!("{:?}", self.from), key.to_string());
        Err(ErrorKind::EntityNotFound { table, key }.into())
    }
}

/// The payload of a step by a mover: the keys of source and target.
pub(super) fn payload(key: &Key, to: &Key) -> Vec<u8> {
    serde_json::json!([key.partition(), key.row(), to.partition(), to.row()])
        .to_string()
        .into_bytes()
}

fn keys(payload: &[u8]) -> Result<(Key, Key)> {
    let parts: [String; 4] = serde_json::from_slice(payload).map_err(|_| {
        Error::invalid_argument("the payload of the step is not a move: append moves by `move_by`")
    })?;
    let [partition, row, to_partition, to_row] = parts;
    Ok((Key::new(partition, row)?, Key::new(to_partition, to_row)?))
}
