//! What the handles of a store share in this process.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{EncryptedNames, LocalPermit, LocalWriters, ManifestCache, NewTable};
use crate::model::{TableName, Ticks};
use crate::profile::ServiceProfile;

/// What the handles, clones and adapters of a store share in this process ([`TableStore::context`](super::TableStore::context)):
/// the cache of manifests, the register of writes, the registrations of the process, the clock, and the properties that are encrypted.
///
/// A backend creates the context once. An adapter returns the context of its store, or one that it has derived from it when it was created,
/// such as [`with_clock`](Self::with_clock). A clone shares everything with the original.
#[derive(Clone)]
pub struct StoreContext {
    manifests: Arc<ManifestCache>,
    local_writers: Option<Arc<LocalWriters>>,
    clock: Arc<dyn Fn() -> Ticks + Send + Sync>,
    encryption: Option<Arc<dyn EncryptedProperties>>,
    shared: Arc<Mutex<SharedStates>>,
}

/// States that handles share, by their type and key. A state ends with the last handle that has it.
type SharedStates = HashMap<(TypeId, String), Weak<dyn Any + Send + Sync>>;

/// The properties that a store encrypts, for the [context](StoreContext::with_encryption) of the store.
pub trait EncryptedProperties: Send + Sync {
    /// Declares that entities of the table have these properties encrypted.
    fn declare(&self, table: &TableName, names: &[&str]);

    /// Returns the names of the properties that are encrypted in a table.
    fn names(&self, table: &TableName) -> EncryptedNames;
}

impl StoreContext {
    /// Creates the context of a service, which other processes write too. The clock is that of this machine.
    pub fn new(profile: &ServiceProfile) -> Self {
        Self::with_manifests(Arc::new(ManifestCache::new(profile)))
    }

    /// Creates the context of a service from a cache of manifests.
    pub fn with_manifests(manifests: Arc<ManifestCache>) -> Self {
        Self {
            manifests,
            local_writers: None,
            clock: Arc::new(Ticks::now),
            encryption: None,
            shared: Arc::default(),
        }
    }

    /// Sets the register of writes, for a store that only this process writes.
    #[must_use]
    pub fn with_local_writers(mut self, writers: Arc<LocalWriters>) -> Self {
        self.local_writers = Some(writers);
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Ticks + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the properties that are encrypted, by an adapter and by its store.
    #[must_use]
    pub fn with_encryption(mut self, encryption: Arc<dyn EncryptedProperties>) -> Self {
        self.encryption = Some(encryption);
        self
    }

    /// Returns the cache of manifests.
    ///
    /// A backend informs it of tables that it [creates](Self::new_table) and deletes, and of manifest rows that it
    /// [writes](ManifestCache::change_of).
    pub const fn manifests(&self) -> &Arc<ManifestCache> {
        &self.manifests
    }

    /// Returns the register of this process's writes, if no other process can write the store; `None` for every service.
    ///
    /// With a register, a change of an index state waits only for the writes in flight. Without one it waits for
    /// the longest time that a write of any process can take. A store that continues an operation after its future was dropped
    /// holds a [permit](LocalWriters::enter) for it.
    pub const fn local_writers(&self) -> Option<&Arc<LocalWriters>> {
        self.local_writers.as_ref()
    }

    /// Registers the start of a write in the [register](Self::local_writers), if there is one.
    #[must_use]
    pub fn enter(&self) -> Option<LocalPermit> {
        self.local_writers.as_ref().map(LocalWriters::enter)
    }

    /// Registers the start of a table's creation. A backend calls it before the request, and [`NewTable::created`] after the
    /// request has succeeded: a new table has an empty manifest, which need not be read.
    pub fn new_table(&self, table: &TableName) -> NewTable {
        self.manifests
            .new_table(table, self.local_writers.as_deref())
    }

    /// Returns the time by which entities of a type with `#[expires]` expire. [`WithClock`](crate::adapter::WithClock) sets another clock.
    pub fn now(&self) -> Ticks {
        (self.clock)()
    }

    /// Returns the state of type `S` with this key, which all handles of the store in this process share. If no handle has it, `make` creates it.
    #[doc(hidden)]
    pub fn shared<S: Any + Send + Sync>(&self, key: &str, make: impl FnOnce() -> S) -> Arc<S> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (TypeId::of::<S>(), key.to_owned());
        let known = shared.get(&place).and_then(Weak::upgrade);
        if let Some(Ok(known)) = known.map(|known| known.downcast::<S>()) {
            return known;
        }
        let made = Arc::new(make());
        // Removes the states that no handle has any more.
        shared.retain(|_, state| state.strong_count() > 0);
        let state: Arc<dyn Any + Send + Sync> = made.clone();
        shared.insert(place, Arc::downgrade(&state));
        made
    }

    /// Declares that entities of the table have these properties encrypted. Typed tables call it when they are opened.
    /// A store that encrypts then refuses filters on these properties and plaintext in them.
    pub fn declare_encrypted(&self, table: &TableName, names: &[&str]) {
        if let Some(encryption) = &self.encryption {
            encryption.declare(table, names);
        }
    }

    /// Returns the names of the properties that the store encrypts in a table, by its rules and by the marks that it
    /// knows. Empty for a store that does not encrypt.
    ///
    /// Code that derives rows, keys, messages or blobs from an entity must call this first. It marks these
    /// properties, or refuses to derive from them.
    pub fn encrypted_names(&self, table: &TableName) -> EncryptedNames {
        self.encryption
            .as_ref()
            .map(|encryption| encryption.names(table))
            .unwrap_or_default()
    }
}

impl fmt::Debug for StoreContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreContext")
            .field("manifests", &self.manifests)
            .field("local_writers", &self.local_writers)
            .finish_non_exhaustive()
    }
}
