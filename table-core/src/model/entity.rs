use super::{ETag, EdmValue, IfMatch, Key, Properties, Ticks, ValueRef};
use crate::error::{Error, Result};

/// An entity as a set of named values: the dynamic form that stores exchange.
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
    /// Creates an entity without properties.
    ///
    /// # Errors
    /// Fails if a key is too long or has a forbidden character.
    pub fn new(partition: impl AsRef<str>, row: impl AsRef<str>) -> Result<Self> {
        Key::new(partition, row).map(Self::from)
    }

    /// Creates an entity from its parts. It has no ETag and no Timestamp.
    pub const fn from_parts(key: Key, properties: Properties) -> Self {
        Self {
            key,
            etag: None,
            timestamp: None,
            properties,
        }
    }

    /// Adds or replaces a property. A marked property stays marked: see [`Properties`].
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<EdmValue>) -> Self {
        self.properties.set(name, value);
        self
    }

    /// Adds or replaces a property that must be stored encrypted.
    #[must_use]
    pub fn with_encrypted(mut self, name: &str, value: impl Into<EdmValue>) -> Self {
        self.properties.set_encrypted(name, value);
        self
    }

    /// Sets ETag and Timestamp. Stores call this on entities that they read; writes ignore both.
    #[must_use]
    pub fn with_system(mut self, etag: Option<ETag>, timestamp: Option<Ticks>) -> Self {
        self.etag = etag;
        self.timestamp = timestamp;
        self
    }

    /// Replaces the key.
    #[must_use]
    pub fn with_key(mut self, key: Key) -> Self {
        self.key = key;
        self
    }

    /// Returns the key.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the ETag, if the entity was read from a store.
    pub const fn etag(&self) -> Option<&ETag> {
        self.etag.as_ref()
    }

    /// Returns the condition that the stored entity still has the version that was read.
    ///
    /// # Errors
    /// Fails if the entity has no ETag. A write in any version instead could overwrite changes of other writers.
    pub fn version(&self) -> Result<IfMatch> {
        self.etag
            .as_ref()
            .map(IfMatch::from)
            .ok_or_else(|| Error::missing_etag(&self.key))
    }

    /// Returns the time of the last write, if the entity was read from a store.
    pub const fn timestamp(&self) -> Option<Ticks> {
        self.timestamp
    }

    /// Returns the properties.
    pub const fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Returns the properties for modification.
    pub const fn properties_mut(&mut self) -> &mut Properties {
        &mut self.properties
    }

    /// Returns the value of a property.
    pub fn get(&self, name: &str) -> Option<ValueRef<'_>> {
        self.properties.get(name)
    }

    /// Moves the entity to its own memory. The entities of a page share buffers of about 48 KiB, which a
    /// single kept entity would keep alive. A clone has its own memory too.
    #[must_use]
    pub fn detached(self) -> Self {
        let etag = self.etag.map(ETag::detached);
        Self {
            key: self.key.detached(),
            etag,
            properties: self.properties.detached(),
            ..self
        }
    }

    /// Returns the parts that a store writes.
    pub fn into_parts(self) -> (Key, Properties) {
        (self.key, self.properties)
    }
}

impl From<Key> for Entity {
    fn from(key: Key) -> Self {
        Self::from_parts(key, Properties::new())
    }
}
