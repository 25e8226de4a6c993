use super::{ETag, EdmValue, Key, Properties, Ticks, ValueRef};
use crate::error::Result;

/// An entity as a bag of properties: the dynamic form that stores exchange.
///
/// ```
/// use table_core::model::Entity;
/// let entity = Entity::new("Sales", "empid_000223")?
///     .with("FirstName", "Ken")
///     .with("Age", 41);
/// assert_eq!(entity.key().row(), "empid_000223");
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    key: Key,
    etag: Option<ETag>,
    timestamp: Option<Ticks>,
    properties: Properties,
}

impl Entity {
    /// An entity without properties.
    ///
    /// # Errors
    /// A key is too long or has a forbidden character.
    pub fn new(partition: impl AsRef<str>, row: impl AsRef<str>) -> Result<Self> {
        Key::new(partition, row).map(Self::from)
    }

    /// An entity from its parts, not yet stored.
    pub const fn from_parts(key: Key, properties: Properties) -> Self {
        Self { key, etag: None, timestamp: None, properties }
    }

    /// Adds or replaces a property. One that was marked stays marked: see [`Properties`].
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<EdmValue>) -> Self {
        self.properties.set(name, value);
        self
    }

    /// Adds or replaces a property that must not leave in the clear.
    #[must_use]
    pub fn with_encrypted(mut self, name: &str, value: impl Into<EdmValue>) -> Self {
        self.properties.set_encrypted(name, value);
        self
    }

    /// Sets what only a store knows. Stores call it on what they read; writes ignore it.
    #[must_use]
    pub fn with_system(mut self, etag: Option<ETag>, timestamp: Option<Ticks>) -> Self {
        self.etag = etag;
        self.timestamp = timestamp;
        self
    }

    /// The same properties under another key.
    #[must_use]
    pub fn with_key(mut self, key: Key) -> Self {
        self.key = key;
        self
    }

    /// The key.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The version the store gave it, if it was read from one.
    pub const fn etag(&self) -> Option<&ETag> {
        self.etag.as_ref()
    }

    /// When the store last wrote it, if it was read from one.
    pub const fn timestamp(&self) -> Option<Ticks> {
        self.timestamp
    }

    /// The properties.
    pub const fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The properties, to change.
    pub const fn properties_mut(&mut self) -> &mut Properties {
        &mut self.properties
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<ValueRef<'_>> {
        self.properties.get(name)
    }

    /// The same in memory of its own. The entities of a page share buffers of about 64 KiB, which one that is
    /// kept would keep. A clone has memory of its own too.
    #[must_use]
    pub fn detached(self) -> Self {
        let etag = self.etag.map(ETag::detached);
        Self { key: self.key.detached(), etag, properties: self.properties.detached(), ..self }
    }

    /// The parts that a store writes.
    pub fn into_parts(self) -> (Key, Properties) {
        (self.key, self.properties)
    }
}

impl From<Key> for Entity {
    fn from(key: Key) -> Self {
        Self::from_parts(key, Properties::new())
    }
}
