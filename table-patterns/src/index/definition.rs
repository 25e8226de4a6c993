use std::fmt;
use std::sync::Arc;

use table_core::model::{Entity, Key, Properties, SYSTEM_PREFIX, TableName};
use table_core::store::{Error, Result, TableStore};

use super::entry::{Entry, Location};
use super::shape::Shape;
use super::shared::{contribution, without_copies};
use crate::encrypted::marked;

/// Where the entries of an index are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the entity's own partition: written with it, atomically.
    SamePartition,
    /// In another partition of the same table.
    OtherPartition,
    /// In another table.
    OtherTable(TableName),
}

/// What an entry holds beside its owner's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Every property: a lookup is one request.
    Full,
    /// These properties.
    Fields(Vec<String>),
    /// Nothing: a lookup follows the reference.
    Reference,
}

/// Which other entities may have the same entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniqueness {
    /// Any: the entry's key includes the entity's, so that entries do not collide.
    No,
    /// None in the partition of the entity.
    WithinPartition,
    /// None in the table.
    WithinTable,
}

type KeyOf = Arc<dyn Fn(&Entity) -> Result<Option<Key>> + Send + Sync>;

/// An index: where its entries are, what they hold, and how their keys come from an entity.
///
/// ```
/// use table_core::model::{Key, ValueRef};
/// use table_patterns::index::{Index, Payload, Placement};
/// // Employees by e-mail address, beside the employee: the guide's intra-partition index.
/// let by_email = Index::new("email", Placement::SamePartition, "1", |e| match e.get("Email") {
///     Some(ValueRef::String(email)) => Key::new(e.key().partition(), format!("email_{email}")).map(Some),
///     _ => Ok(None),
/// })
/// .unique_within_partition()
/// .with_payload(Payload::Full);
/// assert_eq!(by_email.name(), "email");
/// ```
#[derive(Clone)]
pub struct Index {
    name: String,
    placement: Placement,
    payload: Payload,
    uniqueness: Uniqueness,
    key_text: String,
    discriminator: Option<(String, String)>,
    shape: Shape,
    /// Properties that other indexes write into the entities.
    foreign: Arc<[String]>,
    /// The properties in its keys, where templates name them.
    parts: Arc<[String]>,
    /// The store that knows which properties are encrypted, once the index is opened over one.
    store: Option<Arc<dyn TableStore>>,
    key: KeyOf,
}

impl Index {
    /// An index of references whose keys a function derives; `None` means no entry (sparse).
    ///
    /// A function cannot be compared with the one that another program had: `version` stands for it in the
    /// catalog. Give it another text, such as `"2"`, whenever the function gives other keys; the table is
    /// refused then until the index is built anew (see
    /// [`drop_outdated`](super::IndexedEntities::drop_outdated)). [`keyed`](Self::keyed) needs none: its
    /// templates are compared.
    ///
    /// The function sees encrypted properties in the clear, and what it puts into a key is plain text: make such keys by a blind
    /// index (`table_encryption::BlindIndex`).
    ///
    /// The function must give the same key for the same entity, always. Without a uniqueness the key
    /// must include the entity's own, so that no two entities give one key, not even one after the
    /// other. A write whose entry meets another entity's is an error,
    /// [`KeyCollision`](table_core::store::ErrorKind::KeyCollision): nothing is written where the entry is in
    /// the entity's partition; elsewhere the entity is written, its entry is not, and the error says
    /// *applied*. A table of entries serves the entities of one table: opening another's is refused.
    pub fn new(
        name: impl Into<String>,
        placement: Placement,
        version: impl Into<String>,
        key: impl Fn(&Entity) -> Result<Option<Key>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            placement,
            payload: Payload::Reference,
            uniqueness: Uniqueness::No,
            key_text: version.into(),
            discriminator: None,
            shape: Shape::Row,
            foreign: Arc::default(),
            parts: Arc::default(),
            store: None,
            key: Arc::new(key),
        }
    }

    /// As much of an index as its rows tell.
    pub(super) fn of_rows(name: &str, table: Option<&TableName>, shape: Shape) -> Self {
        let placement = table.map_or(Placement::OtherPartition, |table| Placement::OtherTable(table.clone()));
        Self::new(name, placement, "", |_| Ok(None)).with_shape(shape)
    }

    /// Sets what entries hold.
    #[must_use]
    pub fn with_payload(mut self, payload: Payload) -> Self {
        self.payload = payload;
        self
    }

    /// Sets how entries are kept: as rows of their own, or together.
    ///
    /// ```
    /// use table_core::model::{Key, ValueRef};
    /// use table_patterns::index::{Index, Placement, Shape};
    /// // The guide's index entities, option 2: one list of employees for each surname of a department.
    /// let by_surname = Index::new("surname", Placement::SamePartition, "1", |e| match e.get("LastName") {
    ///     Some(ValueRef::String(name)) => Key::new(e.key().partition(), format!("surname_{name}")).map(Some),
    ///     _ => Ok(None),
    /// })
    /// .with_shape(Shape::LIST);
    /// assert_eq!(by_surname.shape().to_string(), "list");
    /// ```
    #[must_use]
    pub fn with_shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Leaves properties out of full copies.
    pub(super) fn with_foreign(mut self, names: Arc<[String]>) -> Self {
        self.foreign = names;
        self
    }

    /// Names the properties in its keys.
    pub(super) fn with_parts(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.parts = names.into_iter().collect();
        self
    }

    /// The properties in its keys, where templates name them.
    pub(crate) fn parts(&self) -> &[String] {
        &self.parts
    }

    /// Derives entries of entities of this store: what it encrypts is marked in them.
    pub(super) fn over(mut self, store: &Arc<dyn TableStore>) -> Self {
        self.store = Some(Arc::clone(store));
        self
    }

    /// No two entities of a partition have the same entry.
    #[must_use]
    pub const fn unique_within_partition(mut self) -> Self {
        self.uniqueness = Uniqueness::WithinPartition;
        self
    }

    /// No two entities of the table have the same entry.
    #[must_use]
    pub const fn unique_within_table(mut self) -> Self {
        self.uniqueness = Uniqueness::WithinTable;
        self
    }

    /// Leaves the property that tells the entity's type out of entries, so that no query for the type
    /// meets them, and puts it back where an entry is read as the entity.
    #[must_use]
    pub fn with_discriminator(mut self, property: impl Into<String>, value: impl Into<String>) -> Self {
        self.discriminator = Some((property.into(), value.into()));
        self
    }

    /// The property that tells the entity's type, and its value.
    pub(super) const fn discriminator(&self) -> Option<&(String, String)> {
        self.discriminator.as_ref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where entries are.
    pub const fn placement(&self) -> &Placement {
        &self.placement
    }

    /// What entries hold.
    pub const fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Who else may have the same entry.
    pub const fn uniqueness(&self) -> Uniqueness {
        self.uniqueness
    }

    /// How entries are kept.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Refuses what makes no sense.
    pub(super) fn validate(&self) -> Result<()> {
        let (shape, payload) = (&self.shape, &self.payload);
        let problem = if self.name.starts_with(SYSTEM_PREFIX) {
            format!("names that begin with '{SYSTEM_PREFIX}' are the library's")
        } else if let Some(problem) = shape.problem() {
            problem
        } else if shape.is_shared() && self.uniqueness != Uniqueness::No {
            format!("a {shape} is for entities that share a key: a unique index is kept as rows")
        } else if shape.is_shared() && *payload != Payload::Reference {
            format!("a {shape} has no payload of its own: leave it at `Payload::Reference`, or keep rows")
        } else if matches!(shape, Shape::Summary { .. }) && self.placement != Placement::SamePartition {
            "numbers elsewhere could be added twice: a summary is in the entity's partition".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::invalid_request(format!("the index '{}': {problem}", self.name)))
    }

    /// The definition as text: two programs that write it differently do not mean the same index.
    pub fn fingerprint(&self) -> String {
        let Self { placement, payload, uniqueness, key_text, shape, .. } = self;
        format!("{placement:?}; {payload:?}; {uniqueness:?}; {shape:?}; {key_text}")
    }

    /// The entry of an entity of `table`, if it has one.
    ///
    /// # Errors
    /// The key cannot be made, is in a partition that the placement does not allow, or would hold an encrypted property.
    pub fn entry(&self, table: &TableName, entity: &Entity) -> Result<Option<Entry>> {
        match &self.store {
            Some(store) => self.entry_of(table, &marked(&**store, table, entity)),
            None => self.entry_of(table, entity),
        }
    }

    fn entry_of(&self, table: &TableName, entity: &Entity) -> Result<Option<Entry>> {
        let Some(key) = (self.key)(entity)? else { return Ok(None) };
        self.check(entity.key(), &key)?;
        let table = match &self.placement {
            Placement::OtherTable(other) => other.clone(),
            _ => table.clone(),
        };
        Ok(Some(Entry {
            location: Location { table, key },
            owner: entity.key().clone(),
            properties: self.held(entity)?,
            index: self.name.clone(),
            unique: self.uniqueness != Uniqueness::No,
            shape: self.shape.clone(),
        }))
    }

    fn check(&self, owner: &Key, key: &Key) -> Result<()> {
        let same = owner.partition() == key.partition();
        let problem = match self.placement {
            Placement::SamePartition if !same => "is not in the entity's partition",
            Placement::OtherPartition if same => "is in the entity's own partition",
            _ if owner == key && !matches!(self.placement, Placement::OtherTable(_)) => {
                "is the entity's own key"
            }
            _ if self.uniqueness == Uniqueness::WithinPartition && !same => {
                "is in another partition, so it cannot be unique within the entity's"
            }
            _ => return Ok(()),
        };
        Err(Error::invalid_request(format!(
            "the index '{}' gives {owner} the entry {key}, which {problem}",
            self.name
        )))
    }

    /// What the entry of an entity holds.
    fn held(&self, entity: &Entity) -> Result<Properties> {
        match &self.shape {
            Shape::Row => Ok(self.copied(entity.properties())),
            Shape::List { .. } | Shape::Blob => Ok(Properties::new()),
            Shape::Summary { sums } => contribution(entity, sums),
            Shape::Copy { fields, .. } => {
                let mut properties = entity.properties().clone();
                properties.retain(|p| fields.iter().any(|field| field == p.name()));
                Ok(properties)
            }
        }
    }

    fn copied(&self, properties: &Properties) -> Properties {
        let mut copy = properties.clone();
        without_copies(&mut copy, &self.foreign);
        match &self.payload {
            Payload::Full => {}
            Payload::Fields(names) => copy.retain(|p| names.iter().any(|n| n == p.name())),
            Payload::Reference => copy.clear(),
        }
        if let Some((property, _)) = &self.discriminator {
            copy.remove(property);
        }
        copy
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.name)
            .field("placement", &self.placement)
            .field("payload", &self.payload)
            .field("uniqueness", &self.uniqueness)
            .field("shape", &self.shape)
            .field("key_text", &self.key_text)
            .finish_non_exhaustive()
    }
}
