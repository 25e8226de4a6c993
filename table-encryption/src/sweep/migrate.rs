use async_trait::async_trait;
use table_core::engine;
use table_core::model::{Entity, IfMatch, TableName};
use table_core::query::Select;
use table_core::store::{ErrorKind, Operation, Result, TableStore};

use super::{Job, Sweep, SweptEntity, classify_write_error};
use crate::error::Failure;
use crate::store::{EncryptedStore, Stored, encrypt_entity};

/// Encrypts plaintext and legacy entities.
#[derive(Debug)]
pub struct Migration<'a, S> {
    store: &'a EncryptedStore<S>,
    again: bool,
}

impl<S: TableStore> EncryptedStore<S> {
    /// Migrates a table to format v2. It converts properties in plaintext that the store's rules name,
    /// entities without the header that `require_encryption` demands, and legacy entities if the store reads
    /// them in this table.
    ///
    /// During the migration, readers need `accept_plaintext` or the legacy format. Remove these options
    /// afterwards, if nothing was [skipped](crate::SweepProgress::skipped). Former plaintext may remain in
    /// backups and on disks that the service has not overwritten yet.
    ///
    /// It migrates this table only. Index entries hold copies of properties: entries in other tables
    /// ([`SweepProgress::index_tables`](crate::SweepProgress::index_tables)) need rules and their own
    /// migration, or a repairing scrub of each index, which rewrites the entries. Keys of entries and sums
    /// that contain the value, and copies under other names, are not found by the property's name: drop such
    /// an index, or scrub the copies.
    pub fn migration<'a>(&'a self, table: &TableName) -> Sweep<'a, S, Migration<'a, S>> {
        Sweep::new(self, Migration { store: self, again: false }, table)
    }
}

impl<'a, S: TableStore> Sweep<'a, S, Migration<'a, S>> {
    /// Also encrypts v2 entities again, with new data keys. Use this after an old key-encryption key has
    /// leaked. It does not cover the blobs of large fields; `LargeTable::rewrite` of `table-patterns` does.
    #[must_use]
    pub fn with_reencryption(mut self) -> Self {
        self.job_mut().again = true;
        self
    }
}

impl<S: TableStore> Migration<'_, S> {
    /// Returns the decrypted entity if it still needs to be migrated.
    async fn unfinished(&self, table: &TableName, entity: Entity) -> Result<Option<Entity>, Failure> {
        let id = self.store.table_id(table);
        let mut opener = self.store.opener(table, None);
        opener.accepts_plaintext = true;
        let stored = opener.stored(&entity).map_err(Failure::OfEntity)?;
        let (is_v2, is_legacy) = (matches!(stored, Stored::V2(_)), matches!(stored, Stored::V1(_)));
        let rules = &self.store.shared.rules;
        let found_plaintext = rules.finds_plaintext(&id, &entity, |name| match &stored {
            Stored::V2(header) => header.find(name).is_some(),
            // A legacy entity lists its encrypted names only in ciphertext; it is migrated in any case.
            _ => is_legacy,
        });
        let lacks_header = !is_v2 && rules.requires(&id);
        if !(found_plaintext || lacks_header || is_legacy || is_v2 && self.again) {
            return Ok(None);
        }
        opener.decrypt_as(entity, stored).await.map(Some)
    }
}

#[async_trait]
impl<S: TableStore> Job for Migration<'_, S> {
    fn select(&self) -> Option<Select> {
        None
    }

    async fn change(&self, table: &TableName, entity: Entity) -> Result<SweptEntity, Failure> {
        let Some(etag) = entity.etag().cloned() else {
            let text = format!("the store returned {} without an ETag", entity.key());
            return Err(Failure::OfEntity(ErrorKind::Service(text).into()));
        };
        let Some(mut entity) = self.unfinished(table, entity).await? else {
            return Ok(SweptEntity::default());
        };
        let id = self.store.table_id(table);
        if !encrypt_entity(&self.store.shared, &id, &mut entity).await.map_err(classify_write_error)? {
            return Ok(SweptEntity::default());
        }
        // The whole entity under the ETag that was read: a merge would leave the metadata of the legacy format in the row.
        let operation = Operation::Replace(entity, IfMatch::Exactly(etag));
        engine::check_operation(self.store.inner().profile(), &operation).map_err(classify_write_error)?;
        let written = self.store.inner().write(table, operation).await;
        written.map(|_| SweptEntity { changed: true, key_id: None }).map_err(classify_write_error)
    }
}
