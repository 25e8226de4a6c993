use std::collections::BTreeMap;
use std::sync::Arc;

use table_core::store::{Error, Result};

use super::{KeyResolver, KeyWrap};

/// The keys of a store: one that wraps new data keys, others that are still needed for reading.
///
/// ```
/// use std::sync::Arc;
/// use table_encryption::{AesKeyWrap, KeyBytes, Keys};
/// let [old, new] = [KeyBytes::random(32)?, KeyBytes::random(32)?];
/// let keys = Keys::new(Arc::new(AesKeyWrap::new("kek-2027", &new)?))
///     .with_key(Arc::new(AesKeyWrap::new("kek-2026", &old)?));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Keys {
    active: Arc<dyn KeyWrap>,
    others: BTreeMap<String, Arc<dyn KeyWrap>>,
    resolver: Option<Arc<dyn KeyResolver>>,
}

impl Keys {
    /// One key, for writing and reading.
    pub fn new(active: Arc<dyn KeyWrap>) -> Self {
        Self { active, others: BTreeMap::new(), resolver: None }
    }

    /// Adds a key for reading.
    #[must_use]
    pub fn with_key(mut self, key: Arc<dyn KeyWrap>) -> Self {
        self.others.insert(key.key_id().to_owned(), key);
        self
    }

    /// Asks for keys that are not named here.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn KeyResolver>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// The key that wraps new data keys.
    pub fn active(&self) -> &Arc<dyn KeyWrap> {
        &self.active
    }

    pub(crate) fn named(&self) -> impl Iterator<Item = &Arc<dyn KeyWrap>> {
        std::iter::once(&self.active).chain(self.others.values())
    }

    /// The key with this id.
    pub(crate) async fn find(&self, key_id: &str) -> Result<Option<Arc<dyn KeyWrap>>> {
        if self.active.key_id() == key_id {
            return Ok(Some(Arc::clone(&self.active)));
        }
        match (self.others.get(key_id), &self.resolver) {
            (Some(key), _) => Ok(Some(Arc::clone(key))),
            (None, Some(resolver)) => resolver.resolve(key_id).await,
            (None, None) => Ok(None),
        }
    }

    /// Refuses names that a header cannot hold.
    pub(crate) fn check(&self) -> Result<()> {
        for key in self.named() {
            let (id, algorithm) = (key.key_id(), key.algorithm());
            if id.len() > usize::from(u16::MAX)
                || algorithm.is_empty()
                || algorithm.len() > usize::from(u8::MAX)
            {
                return Err(Error::invalid_request(format!(
                    "the key id of {} bytes or the algorithm of {} bytes does not fit a header",
                    id.len(),
                    algorithm.len()
                )));
            }
        }
        Ok(())
    }
}
