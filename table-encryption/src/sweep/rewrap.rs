use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use table_core::model::{Entity, INDEX_TABLE, IfMatch, Properties, TableName, ValueRef};
use table_core::query::Select;
use table_core::store::{Operation, Result, TableStore};
use tokio::sync::Mutex;

use super::{Job, Sweep, SweptEntity, classify_write_error};
use crate::data_key::{Secret, Wrapping};
use crate::error::Unreadable;
use crate::store::{EncryptedStore, Failure, Stored};
use crate::v1::METADATA;
use crate::v2::{HEADER, Header, Scope, WriteKeys};

/// Wrappings that are remembered, old to new: about a kilobyte each with RSA.
const REMEMBERED: usize = 4096;

/// Wraps data keys again, under the active key.
#[derive(Debug)]
pub struct Rotation<'a, S> {
    store: &'a EncryptedStore<S>,
    counts: bool,
    rewrapped: Mutex<HashMap<Wrapping, Arc<Wrapping>>>,
}

impl<S: TableStore> EncryptedStore<S> {
    /// Rotates the key-encryption key in a table: every header under another key than the active one gets its data key
    /// wrapped by the active one. Nothing is encrypted again, only headers are read and merged.
    ///
    /// Every header is verified, also under the active key: an entity that only *names* a key, and is under another key
    /// of the same id, or is damaged, is skipped and listed ([`SweepProgress::unreadable`](crate::SweepProgress::unreadable)).
    /// [`SweepProgress::keys`](crate::SweepProgress::keys) has the others by their key; [`counting`](Sweep::counting) counts
    /// without a write.
    ///
    /// The key service is asked once for each data key, and once more for each that is rotated, not for each entity. Afterwards the
    /// former key is no longer needed for the *rows* of the table that were not skipped. Tables of index entries
    /// ([`SweepProgress::index_tables`](crate::SweepProgress::index_tables)) are rotated on their own. Blobs and legacy entities are
    /// left alone: `LargeTable::rewrite` of `table-patterns` brings the blobs of large fields under the active key, and counts them by
    /// key; **drop the former key only then**.
    pub fn rotation<'a>(&'a self, table: &TableName) -> Sweep<'a, S, Rotation<'a, S>> {
        Sweep::new(self, Rotation { store: self, counts: false, rewrapped: Mutex::default() }, table)
    }
}

impl<'a, S: TableStore> Sweep<'a, S, Rotation<'a, S>> {
    /// Only verifies and counts the entities under each key, the legacy ones by what they claim. One request a page.
    #[must_use]
    pub fn counting(mut self) -> Self {
        self.job_mut().counts = true;
        self
    }
}

impl<S: TableStore> Rotation<'_, S> {
    /// The data key under the active key: wrapped once for all entities that share it.
    async fn wrapping(&self, old: &Wrapping, secret: &Secret) -> Result<Arc<Wrapping>> {
        let mut rewrapped = self.rewrapped.lock().await;
        if let Some(new) = rewrapped.get(old) {
            return Ok(Arc::clone(new));
        }
        let new = Arc::new(self.store.shared.keys.wrap(secret).await?);
        if rewrapped.len() == REMEMBERED {
            rewrapped.clear();
        }
        rewrapped.insert(old.clone(), Arc::clone(&new));
        Ok(new)
    }

    fn is_current(&self, wrapping: &Wrapping) -> bool {
        let active = self.store.shared.keys.keys().active();
        *wrapping.key_id == *active.key_id() && *wrapping.algorithm == *active.algorithm()
    }

    /// The keys of the write that made a header, which they verify.
    async fn verified(&self, header: &Header, scope: Scope) -> Result<(Arc<Secret>, WriteKeys), Unreadable> {
        let secret = self.store.shared.keys.open(&header.wrapping).await?;
        let keys = WriteKeys::derive(&secret, &header.salt, scope);
        if header.is_signed_by(&keys) { Ok((secret, keys)) } else { Err(Unreadable::Refused) }
    }
}

#[async_trait]
impl<S: TableStore> Job for Rotation<'_, S> {
    fn select(&self) -> Option<Select> {
        Some(Select::new(std::iter::once(HEADER).chain(METADATA).chain([INDEX_TABLE])))
    }

    async fn change(&self, table: &TableName, entity: Entity) -> Result<SweptEntity, Failure> {
        let opener = self.store.opener(table, None);
        let header = match opener.stored(&entity).map_err(Failure::OfEntity)? {
            Stored::Plain => return Ok(SweptEntity::default()),
            Stored::V1(metadata) => return Ok(SweptEntity { changed: false, key_id: Some(metadata.key_id) }),
            Stored::V2(header) => *header,
        };
        let scope = Scope::of_entity(&self.store.table_id(table), entity.key());
        let (secret, keys) =
            self.verified(&header, scope).await.map_err(|e| e.failure(table, entity.key()))?;
        if self.counts || self.is_current(&header.wrapping) {
            return Ok(SweptEntity { changed: false, key_id: Some(header.wrapping.key_id.into()) });
        }
        let wrapping = self.wrapping(&header.wrapping, &secret).await.map_err(Failure::OfService)?;
        let key_id = Some(wrapping.key_id.to_string());
        let header = header.rewrapped(Wrapping::clone(&wrapping), &keys);
        let mut properties = Properties::new();
        properties.put(HEADER, ValueRef::Binary(&header.to_bytes()), false);
        let version = entity.etag().map_or(IfMatch::Any, IfMatch::from);
        let patch = Entity::from_parts(entity.key().clone(), properties);
        let written = self.store.inner().write(table, Operation::Merge(patch, version)).await;
        written.map(|_| SweptEntity { changed: true, key_id }).map_err(classify_write_error)
    }
}
