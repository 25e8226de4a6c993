use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use table_core::model::{Entity, IfMatch, Properties, TableName, ValueRef};
use table_core::query::Select;
use table_core::store::{Operation, Result, TableStore};
use tokio::sync::Mutex;

use super::{Job, Sweep};
use crate::data_key::{Secret, Wrapping};
use crate::error::Unreadable;
use crate::store::{EncryptedStore, Stored};
use crate::v2::{HEADER, Header, Scope, WriteKeys};

/// Wrappings that are remembered, old to new: about a kilobyte each with RSA.
const REMEMBERED: usize = 4096;

/// Wraps data keys again, under the active key.
#[derive(Debug)]
pub struct Rotation<'a, S> {
    store: &'a EncryptedStore<S>,
    rewrapped: Mutex<HashMap<Wrapping, Arc<Wrapping>>>,
}

impl<S: TableStore> EncryptedStore<S> {
    /// Rotates the key-encryption key in a table: every header under another key than the active one gets its data key
    /// wrapped by the active one. Nothing is encrypted again, only headers are read and merged.
    ///
    /// The key service is asked twice for each data key, not for each entity. Afterwards the former key is no longer needed for
    /// the *rows* of the table. Blobs and legacy entities are left alone: `LargeTable::rewrite` of `table-patterns` brings the blobs
    /// of large fields under the active key, and counts them by key; **drop the former key only then**.
    pub fn rotation<'a>(&'a self, table: &TableName) -> Sweep<'a, S, Rotation<'a, S>> {
        Sweep::new(self.inner(), Rotation { store: self, rewrapped: Mutex::default() }, table)
    }
}

impl<S: TableStore> Rotation<'_, S> {
    async fn rewrap(&self, header: Header, secret: &Secret, scope: Scope) -> Result<Header, Unreadable> {
        let keys = WriteKeys::derive(secret, &header.salt, scope);
        if !header.is_signed_by(&keys) {
            return Err(Unreadable::Refused);
        }
        let wrapping = self.wrapping(&header.wrapping, secret).await.map_err(Unreadable::Unavailable)?;
        Ok(header.rewrapped(Wrapping::clone(&wrapping), &keys))
    }

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
}

#[async_trait]
impl<S: TableStore> Job for Rotation<'_, S> {
    fn select(&self) -> Option<Select> {
        Some(Select::new([HEADER]))
    }

    async fn change(&self, table: &TableName, entity: Entity) -> Result<bool> {
        let opener = self.store.opener(table, None);
        let Stored::V2(header) = opener.stored(&entity)? else { return Ok(false) };
        if self.is_current(&header.wrapping) {
            return Ok(false);
        }
        let scope = Scope::of_entity(&self.store.table_id(table), entity.key());
        let refused = |e: Unreadable| e.of_entity(table, entity.key());
        let secret = self.store.shared.keys.open(&header.wrapping).await.map_err(refused)?;
        let header = self.rewrap(*header, &secret, scope).await.map_err(refused)?;
        let mut properties = Properties::new();
        properties.put(HEADER, ValueRef::Binary(&header.to_bytes()), false);
        let version = entity.etag().map_or(IfMatch::Any, IfMatch::from);
        let patch = Entity::from_parts(entity.key().clone(), properties);
        self.store.inner().write(table, Operation::Merge(patch, version)).await.map(|_| true)
    }
}
