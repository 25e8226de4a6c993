//! Entities that have expired or are deleted and kept: what writes do with them, and soft deletion.

use super::handle::Shared;
use super::{KeyOf, PlainTable};
use crate::model::{Entity, Ticks};
use crate::store::{Conflicts, Error, Operation, Result, Written};
use crate::typed::{Schema, SoftDelete, TableEntity};

impl<T> PlainTable<T> {
    /// Whether reads of this handle leave a stored row out, because it has expired or is deleted.
    #[doc(hidden)]
    pub fn hides(&self, row: &Entity) -> bool {
        let shared = self.shared();
        !shared.extra_rows.hidden
            && !shared.expiries.is_empty()
            && shared.expiries.hides(row, self.store().context().now())
    }

    /// Whether reads of this handle return hidden entities too.
    #[doc(hidden)]
    pub fn shows_hidden(&self) -> bool {
        self.shared().extra_rows.hidden
    }

    /// Adds a type to the manifest, if its entities expire and the manifest does not have it. For writes through the store itself.
    ///
    /// 2 requests for the first write of the type in the table, and 1 if the manifest was not read for 30 seconds; otherwise none.
    ///
    /// # Errors
    /// Fails if the manifest has another layout or expiry for the type. Returns the errors of the store.
    #[doc(hidden)]
    pub async fn register(&self, schema: &Schema) -> Result<()> {
        self.shared().register(schema).await
    }
}

impl<T: TableEntity> PlainTable<T> {
    /// Inserts an entity. A stored entity that is due does not keep the key: it is replaced in the version that was read, so that its renewal
    /// by another writer fails the insert.
    pub(super) async fn insert_over_due(&self, entity: Entity) -> Result<Written> {
        let shared = self.shared();
        if shared.expiries.is_empty() {
            return self.write(Operation::Insert(entity)).await;
        }
        let mut conflicts = Conflicts::new(shared.attempts);
        loop {
            let exists = match self.write(Operation::Insert(entity.clone())).await {
                Err(error) if error.is_already_exists() && !error.is_ambiguous() => error,
                inserted => return inserted,
            };
            let Some(stored) = self.store().get(self.name(), entity.key(), None).await? else {
                conflicts.wait(exists).await?;
                continue;
            };
            if !T::SCHEMA.is_due(&stored, self.store().context().now()) {
                return Err(exists);
            }
            match self
                .write(Operation::Replace(entity.clone(), stored.version()?))
                .await
            {
                Err(error) => conflicts.wait(error).await?,
                replaced => return replaced,
            }
        }
    }
}

impl Shared {
    /// Whether reads of this handle leave out a stored row of a type.
    pub(super) fn hides_row_of(&self, schema: &Schema, row: &Entity) -> bool {
        !self.extra_rows.hidden
            && schema.expiry.is_some()
            && schema.hides(row, self.store.context().now())
    }
}

impl Schema {
    /// Whether reads leave out a stored row at this time: it is of this type, and has expired or is deleted.
    #[doc(hidden)]
    pub fn hides(&self, row: &Entity, now: Ticks) -> bool {
        let expiry = self
            .expiry
            .as_ref()
            .filter(|_| self.discriminator.admits(self.type_name, row));
        expiry.is_some_and(|expiry| expiry.hides(row, now))
    }

    /// Whether a stored row may be removed at this time. A row of a later schema version is not: that version may expire otherwise, or not at all.
    #[doc(hidden)]
    pub fn is_due(&self, row: &Entity, now: Ticks) -> bool {
        let expiry = self
            .expiry
            .as_ref()
            .filter(|_| self.discriminator.admits(self.type_name, row));
        expiry.is_some_and(|expiry| expiry.is_due(row, now))
            && self
                .stored_version(row)
                .is_ok_and(|version| version <= i64::from(self.version))
    }

    /// Returns the stored row into which a write may merge, for a handle that leaves hidden entities out. `None` if the row is due, so that the
    /// write replaces it.
    ///
    /// # Errors
    /// Fails if the entity is deleted and kept, or is hidden and stored in a later schema version.
    #[doc(hidden)]
    pub fn merge_base<'e>(&self, row: &'e Entity, now: Ticks) -> Result<Option<&'e Entity>> {
        if !self.hides(row, now) {
            return Ok(Some(row));
        }
        if self.is_due(row, now) {
            return Ok(None);
        }
        self.check_replaceable(row)?;
        Err(Error::wrong_state(format!(
            "the {} {} is deleted and kept: restore it first, or delete it for good",
            self.rust_name,
            row.key()
        )))
    }
}

/// Soft deletion: the entity stays stored with a time of deletion, reads leave it out, and a sweep removes it for good when it has been kept for
/// the days of `#[deleted_at(keep_days = …)]`.
///
/// Until then the entity keeps its key, its index entries and its unique values, so that a restore always succeeds. [`delete`](PlainTable::delete) deletes
/// for good at once.
impl<T: SoftDelete> PlainTable<T> {
    /// Sets the time of deletion to [`now`](crate::store::StoreContext::now). Returns the entity as stored. Requests as for
    /// [`update`](Self::update): 2, and 2 more per conflict.
    ///
    /// ```
    /// # use table_core::prelude::*;
    /// # use table_core::typed::PlainTable;
    /// #[derive(Debug, TableEntity)]
    /// struct Note {
    ///     #[partition_key]
    ///     user: String,
    ///     #[row_key]
    ///     id: u32,
    ///     text: String,
    ///     #[deleted_at(keep_days = 30)]
    ///     deleted: Option<Ticks>,
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// let notes = PlainTable::<Note>::new(MemoryStore::new(), "Notes")?;
    /// notes.create_if_missing().await?;
    /// notes.insert(&Note { user: "ann".into(), id: 1, text: "milk".into(), deleted: None }).await?;
    /// notes.soft_delete(Note::key("ann", 1)?).await?;
    /// assert_eq!(notes.query().count().await?, 0);
    /// assert_eq!(notes.query().with_hidden().count().await?, 1);
    /// assert_eq!(notes.restore(Note::key("ann", 1)?).await?.text, "milk");
    /// assert_eq!(notes.query().count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`update`](Self::update): an entity that is deleted already or has expired is missing.
    pub async fn soft_delete(&self, key: impl KeyOf<T>) -> Result<T> {
        let now = self.store().context().now();
        self.update(key, |entity| {
            entity.set_deleted_at(Some(now));
            Ok(())
        })
        .await
    }

    /// Removes the time of deletion. Returns the entity as stored. Requests as for [`update`](Self::update). An entity can be restored until a sweep or a
    /// claimant of its key removes it. An entity that is not deleted is written unchanged.
    ///
    /// # Errors
    /// Returns the errors of [`update`](Self::update).
    pub async fn restore(&self, key: impl KeyOf<T>) -> Result<T> {
        let all = self.clone().with_hidden();
        all.update(key, |entity| {
            entity.set_deleted_at(None);
            Ok(())
        })
        .await
    }
}
