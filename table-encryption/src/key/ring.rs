use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use table_core::store::{Error, ErrorKind, Result};

use super::{KeyResolver, KeyWrap};

/// The keys of a store: one key that wraps new data keys, and other keys for reading.
///
/// Each key must have its own id. [`EncryptedStoreBuilder::build`](crate::EncryptedStoreBuilder::build) and
/// [`BlobCipher::with_keys`](crate::BlobCipher::with_keys) refuse two different keys with the same id,
/// because data of one of them could not be read.
///
/// ```
/// use std::sync::Arc;
/// use table_encryption::{AesKeyWrap, KeyBytes, Keys};
/// let [old, new] = [KeyBytes::random(32)?, KeyBytes::random(32)?];
/// let keys = Keys::new(Arc::new(AesKeyWrap::new("kek-2027", &new)?))
///     .with_key(Arc::new(AesKeyWrap::new("kek-2026", &old)?));
/// assert_eq!(format!("{keys:?}"), r#"Keys { active: "kek-2027", others: ["kek-2026"], resolver: false }"#);
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Keys {
    active: Arc<dyn KeyWrap>,
    others: BTreeMap<String, Arc<dyn KeyWrap>>,
    resolver: Option<Arc<dyn KeyResolver>>,
    /// An id that two keys share.
    duplicate: Option<String>,
}

impl Keys {
    /// Creates a ring with one key for writing and reading.
    pub fn new(active: Arc<dyn KeyWrap>) -> Self {
        Self { active, others: BTreeMap::new(), resolver: None, duplicate: None }
    }

    /// Adds a key for reading. Adding the same `Arc` again has no effect.
    #[must_use]
    pub fn with_key(mut self, key: Arc<dyn KeyWrap>) -> Self {
        match self.known(key.key_id()) {
            None => drop(self.others.insert(key.key_id().to_owned(), key)),
            Some(known) if is_same(known, &key) => {}
            Some(_) => self.duplicate = Some(key.key_id().to_owned()),
        }
        self
    }

    /// Sets a resolver for keys that are not in this ring.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn KeyResolver>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Returns the key that wraps new data keys.
    pub fn active(&self) -> &Arc<dyn KeyWrap> {
        &self.active
    }

    /// The keys of this ring, without the keys that only the resolver knows.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Arc<dyn KeyWrap>> {
        std::iter::once(&self.active).chain(self.others.values())
    }

    fn known(&self, key_id: &str) -> Option<&Arc<dyn KeyWrap>> {
        if self.active.key_id() == key_id { Some(&self.active) } else { self.others.get(key_id) }
    }

    /// Returns the key with this id.
    pub(crate) async fn find(&self, key_id: &str) -> Result<Option<Arc<dyn KeyWrap>>> {
        match (self.known(key_id), &self.resolver) {
            (Some(key), _) => Ok(Some(Arc::clone(key))),
            (None, None) => Ok(None),
            (None, Some(resolver)) => match resolver.resolve(key_id).await? {
                // The id is stored with the data. A key of another id would be used for reading, and a rotation would count it wrongly.
                Some(key) if key.key_id() != key_id => Err(ErrorKind::Service(format!(
                    "the key resolver returned the key {:?} for the id {key_id:?}",
                    key.key_id()
                ))
                .into()),
                found => Ok(found),
            },
        }
    }

    /// Refuses two keys with the same id, and names that a header cannot hold.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(id) = &self.duplicate {
            return Err(Error::invalid_request(format!(
                "two keys have the id {id:?}, so data of one of them could not be read; give each key its own id, \
                 version included"
            )));
        }
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

fn is_same(a: &Arc<dyn KeyWrap>, b: &Arc<dyn KeyWrap>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}

/// Shows the ids only, because a caller's `KeyWrap` may show key material in its own `Debug`.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("active", &self.active.key_id())
            .field("others", &self.others.keys().collect::<Vec<_>>())
            .field("resolver", &self.resolver.is_some())
            .finish()
    }
}
