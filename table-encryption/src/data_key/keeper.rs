use std::fmt;
use std::sync::Arc;

use moka::future::Cache;
use table_core::store::{Error, ErrorKind, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{CacheBounds, DataKey, DataKeyBounds, Secret, Wrapping};
use crate::error::Unreadable;
use crate::key::Keys;
use crate::key::fill_random;

/// Makes data keys within their bounds, and unwraps those that it meets, each once.
pub(crate) struct DataKeys {
    keys: Keys,
    bounds: DataKeyBounds,
    current: Mutex<Option<Current>>,
    cache: Cache<Wrapping, Secret>,
}

struct Current {
    key: Arc<DataKey>,
    made: Instant,
    writes: u64,
}

impl DataKeys {
    pub(crate) fn new(keys: Keys, bounds: DataKeyBounds, cache: CacheBounds) -> Self {
        let cache = Cache::builder().max_capacity(cache.max_keys).time_to_live(cache.max_age).build();
        Self { keys, bounds, current: Mutex::new(None), cache }
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The key for one write. Whoever comes while a key is made waits for it: one call of the key service.
    pub(crate) async fn for_write(&self) -> Result<Arc<DataKey>> {
        let mut current = self.current.lock().await;
        if let Some(current) = current.as_mut().filter(|c| c.may_serve(&self.bounds)) {
            current.writes += 1;
            return Ok(Arc::clone(&current.key));
        }
        let key = Arc::new(self.make().await?);
        *current = Some(Current { key: Arc::clone(&key), made: Instant::now(), writes: 1 });
        Ok(key)
    }

    async fn make(&self) -> Result<DataKey> {
        let mut bytes = zeroize::Zeroizing::new([0; 32]);
        fill_random(&mut *bytes)?;
        let secret = Secret::new(*bytes);
        let wrapping = self.wrap(&secret).await?;
        self.cache.insert(wrapping.clone(), secret.clone()).await;
        Ok(DataKey { secret, wrapping })
    }

    /// Wraps a data key with the active key.
    pub(crate) async fn wrap(&self, secret: &Secret) -> Result<Wrapping> {
        let active = self.keys.active();
        let wrapped = active.wrap_key(&secret.labelled()).await?;
        if wrapped.len() > usize::from(u16::MAX) {
            return Err(Error::limit("bytes of a wrapped key", usize::from(u16::MAX), wrapped.len()));
        }
        Ok(Wrapping {
            algorithm: active.algorithm().into(),
            key_id: active.key_id().into(),
            wrapped: wrapped.into(),
        })
    }

    /// The data key in a wrapping: from the cache, or unwrapped, once for all who ask at a time.
    pub(crate) async fn open(&self, wrapping: &Wrapping) -> Result<Secret, Unreadable> {
        if let Some(secret) = self.cache.get(wrapping).await {
            return Ok(secret);
        }
        let unwrapped = self.cache.try_get_with_by_ref(wrapping, self.unwrap(wrapping)).await;
        unwrapped.map_err(|e| Unreadable::clone(&e))
    }

    async fn unwrap(&self, wrapping: &Wrapping) -> Result<Secret, Unreadable> {
        let key = self.keys.find(&wrapping.key_id).await.map_err(unreadable)?;
        let key = key.filter(|k| k.algorithm() == &*wrapping.algorithm).ok_or(Unreadable::Refused)?;
        let bytes = key.unwrap_key(&wrapping.wrapped).await.map_err(unreadable)?;
        Secret::from_labelled(&bytes).ok_or(Unreadable::Refused)
    }
}

/// A key that refuses is not told from data that was changed; a key service that cannot be used is.
pub(crate) fn unreadable(error: Error) -> Unreadable {
    match error.kind() {
        ErrorKind::Encryption(_) => Unreadable::Refused,
        _ => Unreadable::Unavailable(error),
    }
}

impl Current {
    fn may_serve(&self, bounds: &DataKeyBounds) -> bool {
        self.writes < bounds.max_writes && self.made.elapsed() < bounds.max_age
    }
}

impl fmt::Debug for DataKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKeys")
            .field("keys", &self.keys)
            .field("bounds", &self.bounds)
            .field("cached", &self.cache.entry_count())
            .finish_non_exhaustive()
    }
}
