use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use table_core::model::{Entity, INDEX_TABLE, IfMatch, Properties, TableName, ValueRef};
use table_core::query::Select;
use table_core::store::{Error, Operation, Result, TableStore};
use tokio::sync::Mutex;

use super::{Job, Sweep, SweptEntity, classify_write_error};
use crate::data_key::{Secret, Wrapping};
use crate::error::Failure;
use crate::error::Unreadable;
use crate::store::{EncryptedStore, Stored};
use crate::v1::METADATA;
use crate::v2::{HEADER, Header, Scope, WriteKeys};

/// Maximum number of remembered wrappings (old to new), about a kilobyte each with RSA.
const REMEMBERED: usize = 4096;

/// Wraps data keys again with the active key-encryption key.
#[derive(Debug)]
pub struct Rotation<'a, S> {
    store: &'a EncryptedStore<S>,
    counts: bool,
    rewrapped: Mutex<HashMap<Wrapping, Arc<Wrapping>>>,
}

impl<S: TableStore> EncryptedStore<S> {
    /// Rotates the key-encryption key of a table. Every data key that another key wraps is wrapped again with
    /// the active key. Entities are not encrypted again; only headers are read and merged.
    ///
    /// Every header is verified, also those under the active key. An entity whose header only *claims* a key
    /// (it is damaged, or another key of the same id wrapped it) is skipped and listed
    /// ([`SweepProgress::unreadable`](crate::SweepProgress::unreadable)).
    /// [`SweepProgress::keys`](crate::SweepProgress::keys) counts the others by key;
    /// [`counting`](Sweep::counting) only counts.
    ///
    /// The key service is called once per data key, and once more per rotated data key, not per entity.
    /// Afterwards, the *rows* that were not skipped no longer need the former key. Rotate tables of index
    /// entries ([`SweepProgress::index_tables`](crate::SweepProgress::index_tables)) separately. Blobs and
    /// legacy entities are not rotated: `LargeTable::rewrite` of `table-patterns` moves the blobs of large
    /// fields to the active key and counts them by key. **Drop the former key only after that.**
    pub fn rotation<'a>(&'a self, table: &TableName) -> Sweep<'a, S, Rotation<'a, S>> {
        Sweep::new(self, Rotation { store: self, counts: false, rewrapped: Mutex::default() }, table)
    }
}

impl<'a, S: TableStore> Sweep<'a, S, Rotation<'a, S>> {
    /// Only verifies and counts the entities per key, and legacy entities by the key that they claim. 1
    /// request per page.
    #[must_use]
    pub fn counting(mut self) -> Self {
        self.job_mut().counts = true;
        self
    }
}

impl<S: TableStore> Rotation<'_, S> {
    /// Returns the data key wrapped by the active key. It is wrapped once for all entities that share it.
    async fn wrapping(&self, old: &Wrapping, secret: &Secret) -> Result<Arc<Wrapping>> {
        // Held while the key service answers, so that entities that share a data key cause one call.
        let mut rewrapped = self.rewrapped.lock().await;
        if let Some(new) = rewrapped.get(old) {
            return Ok(Arc::clone(new));
        }
        let new = Arc::new(self.store.shared.keys.wrap(secret).await?);
        // Forgetting costs a second wrapping of a data key, never correctness.
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

    /// Returns the keys of the write that created a header, after verifying the header with them.
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
        // Also under the active key: the id is a claim of the row's writer, and the count of keys decides whether a key is dropped.
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
        // Under the ETag: a header of an earlier write in a row of a later write would make the row unreadable. Each row is changed by one
        // request, so a stop at any point leaves every row under the old or under the new key, and readers have both.
        let etag = entity.etag().ok_or_else(|| Failure::OfService(Error::without_etag(entity.key())))?;
        let patch = Entity::from_parts(entity.key().clone(), properties);
        let written = self.store.inner().write(table, Operation::Merge(patch, IfMatch::from(etag))).await;
        written.map(|_| SweptEntity { changed: true, key_id }).map_err(classify_write_error)
    }
}
