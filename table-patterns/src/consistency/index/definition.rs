use std::fmt;
use std::sync::{Arc, OnceLock};

pub use table_core::manifest::{Payload, Placement, Uniqueness};

use table_core::manifest::{
    Discriminator, EntityType, Evaluator, IndexDefinition, KeyTemplate, Text, index_name,
};
use table_core::model::{Entity, Key, Properties, TableName};
use table_core::store::{Error, Result, TableStore};

use super::entry::{Entry, Location};
use super::shape::Shape;
use super::shared::{contribution, without_copies};
use crate::journal::without_mark;
use crate::large::names_in_blobs;
use crate::rows::encrypted::marked;

/// Makes the keys of an entity's entries.
type KeysOf = Arc<dyn Fn(&Entity) -> Result<Vec<Key>> + Send + Sync>;

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
    definition: IndexDefinition,
    /// Derives the keys where Rust code does; otherwise the definition says how.
    function: Option<KeysOf>,
    evaluator: OnceLock<Evaluator>,
    id: OnceLock<String>,
    /// Properties that other indexes write into the entities.
    foreign: Arc<[String]>,
    /// The store that knows which properties are encrypted, once the index is opened over one.
    store: Option<Arc<dyn TableStore>>,
}

impl Index {
    /// An index of references whose keys a function derives; `None` means no entry (sparse).
    ///
    /// Such an index is *opaque*: a function cannot be stored, so only programs that have it can keep the index in step; use
    /// [`keyed`](Self::keyed) where templates say what the keys are.
    /// Nor can a function be compared with the one that another program had: `version` stands for it in the
    /// manifest. Give it another text, such as `"2"`, whenever the function gives other keys: that is another generation of
    /// the index, to be [built](super::IndexedEntities::build) after the earlier one is
    /// [dropped](super::IndexedEntities::drop_index). [`keyed`](Self::keyed) needs none: its templates are compared.
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
        let definition = IndexDefinition::opaque(name.into(), placement, version.into());
        Self::derived(definition, move |entity| Ok(key(entity)?.into_iter().collect()))
    }

    /// An index whose keys are made by templates, of texts and properties in braces: a composite key. An
    /// entity that lacks one of the properties has no entry. Every program can keep such an index in step, by what the
    /// [definition](Self::definition) says.
    ///
    /// | piece | writes |
    /// |---|---|
    /// | `{Name}` | the property as a key part of the type it is stored as: text escaped, numbers so that they sort |
    /// | `{Name:u64}` | the property as a key part of this type, whatever integer type it is stored as: `text`, `bool`, `u8` to `u64`, `i8` to `i64`, `f64`, `time`, `uuid` |
    /// | `{Name:06}` | a whole number, not negative, in 6 digits |
    /// | `{Name:desc}` | a number or a time so that the largest or latest sorts first |
    /// | `{Name:lower}` | a text in lower case |
    /// | `{Name:prefix(3)}` | the first 3 characters of a text |
    /// | `{Name:date}`, `{Name:hour}` | the UTC day `2026-11-22` or hour `2026-11-22T18` of a time |
    /// | `{Name#16}` | the [shard](super::Shards) of a text among 16 |
    /// | `{Name[]}` | an element of a list, which is stored as JSON text: an entry for each element |
    /// | `{PartitionKey}`, `{RowKey}` | the entity's own |
    ///
    /// Words combine from left to right: `{Email:lower:prefix(3)}`, `{Email:lower#16}`, `{Tags[]:lower}`. `{{` and `}}` are braces.
    ///
    /// Without a template for the PartitionKey it is the entity's. The templates are part of the definition:
    /// a change of them is noticed.
    ///
    /// ```
    /// use table_core::model::{Entity, TableName};
    /// use table_patterns::index::{Index, Placement};
    /// let by_name =
    ///     Index::keyed("name", Placement::OtherPartition, "name_{LastName#16}", "{LastName}_{Age:03}_{RowKey}")?;
    /// let ken = Entity::new("Sales", "empid_000223")?.with("LastName", "Kwok").with("Age", 41);
    /// let entries = by_name.entries(&TableName::new("Employees")?, &ken)?;
    /// assert_eq!(entries[0].location.key.row(), "Kwok_041_empid_000223");
    ///
    /// let by_tag = Index::keyed("tag", Placement::SamePartition, "", "tag_{Tags[]:lower}_{RowKey}")?;
    /// let ken = ken.with("Tags", r#"["Sales", "abroad"]"#);
    /// assert_eq!(by_tag.entries(&TableName::new("Employees")?, &ken)?.len(), 2);
    /// # Ok::<(), table_core::Error>(())
    /// ```
    ///
    /// A property that is to be encrypted cannot be part of a key, which is plain text: an entity that has one is refused, and so
    /// is the index where the store encrypts the property by a rule.
    ///
    /// # Errors
    /// A template cannot be read.
    pub fn keyed(name: &str, placement: Placement, partition: &str, row: &str) -> Result<Self> {
        let partition: Option<KeyTemplate> =
            if partition.is_empty() { None } else { Some(partition.parse()?) };
        Self::from_definition(IndexDefinition::keyed(name.to_owned(), placement, partition, row.parse()?))
    }

    /// The index of a definition, such as one that a derived type declares (`T::SCHEMA.indexes`): a program without the type
    /// keeps the index in step by what the definition says.
    ///
    /// # Errors
    /// The definition makes no sense, or is opaque.
    pub fn from_definition(definition: IndexDefinition) -> Result<Self> {
        if definition.is_opaque() {
            let name = &definition.name;
            let reason = format!(
                "the index '{name}' is opaque: its keys are made by Rust code that this program does not have"
            );
            return Err(Error::invalid_request(reason));
        }
        let evaluator = OnceLock::from(definition.evaluator()?);
        Ok(Self { evaluator, ..Self::of(definition, None) })
    }

    /// An index of a definition whose keys Rust code derives.
    pub(super) fn derived(
        definition: IndexDefinition,
        keys: impl Fn(&Entity) -> Result<Vec<Key>> + Send + Sync + 'static,
    ) -> Self {
        Self::of(definition, Some(Arc::new(keys)))
    }

    fn of(definition: IndexDefinition, function: Option<KeysOf>) -> Self {
        let (evaluator, id) = (OnceLock::new(), OnceLock::new());
        Self { definition, function, evaluator, id, foreign: Arc::default(), store: None }
    }

    /// As much of an index as its rows tell.
    pub(super) fn of_rows(id: &str, table: Option<&TableName>, shape: Shape) -> Self {
        let placement = table.map_or(Placement::OtherPartition, |table| Placement::OtherTable(table.clone()));
        let index = Self::new(index_name(id).to_owned(), placement, "", |_| Ok(None)).with_shape(shape);
        Self { id: OnceLock::from(id.to_owned()), ..index }
    }

    fn change(mut self, change: impl FnOnce(&mut IndexDefinition)) -> Self {
        change(&mut self.definition);
        (self.evaluator, self.id) = (OnceLock::new(), OnceLock::new());
        self
    }

    /// What is evaluated for every entity.
    fn evaluator(&self) -> Result<&Evaluator> {
        if let Some(evaluator) = self.evaluator.get() {
            return Ok(evaluator);
        }
        let evaluator = self.definition.evaluator()?;
        Ok(self.evaluator.get_or_init(|| evaluator))
    }

    /// Sets what entries hold.
    #[must_use]
    pub fn with_payload(self, payload: Payload) -> Self {
        self.change(|definition| definition.payload = payload)
    }

    /// Keeps entries for those entities alone that match a filter: a sparse index. The filter sees the entity as it is stored; it
    /// is part of the definition.
    ///
    /// ```
    /// use table_core::model::{Entity, TableName};
    /// use table_patterns::index::{Index, Placement};
    /// let open = Index::keyed("open", Placement::SamePartition, "", "open_{Due:date}_{RowKey}")?
    ///     .with_condition("Status eq 'open'")?;
    /// let ticket = Entity::new("Support", "1")?.with("Status", "closed").with("Due", chrono::Utc::now());
    /// assert!(open.entries(&TableName::new("Tickets")?, &ticket)?.is_empty());
    /// # Ok::<(), table_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// It is no filter, or asks for the Timestamp, which is set after the entry is written.
    pub fn with_condition(self, filter: impl Into<String>) -> Result<Self> {
        let filter = filter.into();
        let changed = self.change(|definition| definition.condition = Some(filter.into()));
        changed.evaluator()?;
        Ok(changed)
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
    pub fn with_shape(self, shape: Shape) -> Self {
        self.change(|definition| definition.shape = shape)
    }

    /// Leaves properties out of full copies.
    pub(super) fn with_foreign(mut self, names: Arc<[String]>) -> Self {
        self.foreign = names;
        self
    }

    /// The properties that templates and condition read.
    pub(crate) fn properties_read(&self) -> Result<Vec<String>> {
        self.definition.properties_read()
    }

    /// Derives entries of entities of this store: what it encrypts is marked in them.
    pub(super) fn over(mut self, store: &Arc<dyn TableStore>) -> Self {
        self.store = Some(Arc::clone(store));
        self
    }

    /// No two entities of a partition have the same entry.
    #[must_use]
    pub fn unique_within_partition(self) -> Self {
        self.change(|definition| definition.uniqueness = Uniqueness::WithinPartition)
    }

    /// No two entities of the table have the same entry.
    #[must_use]
    pub fn unique_within_table(self) -> Self {
        self.change(|definition| definition.uniqueness = Uniqueness::WithinTable)
    }

    /// Keeps entries for the entities of one type alone, which has this value in this property. Entries do not hold the property, so
    /// that no query for the type meets them; it is put back where an entry is read as the entity.
    #[must_use]
    pub fn with_discriminator(self, property: impl Into<String>, value: impl Into<String>) -> Self {
        let (property, value) = (Text::from(property.into()), Text::from(value.into()));
        self.change(|definition| {
            let discriminator = Discriminator::Property(property);
            definition.entity = EntityType { name: value, discriminator, ..definition.entity.clone() };
        })
    }

    /// The property that tells the entity's type, and its value.
    pub(super) fn discriminator(&self) -> Option<(&str, &str)> {
        let EntityType { name, discriminator, .. } = &self.definition.entity;
        discriminator.property().map(|property| (property, &**name))
    }

    /// The definition, as data.
    pub const fn definition(&self) -> &IndexDefinition {
        &self.definition
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Where entries are.
    pub const fn placement(&self) -> &Placement {
        &self.definition.placement
    }

    /// What entries hold.
    pub const fn payload(&self) -> &Payload {
        &self.definition.payload
    }

    /// Who else may have the same entry.
    pub const fn uniqueness(&self) -> Uniqueness {
        self.definition.uniqueness
    }

    /// How entries are kept.
    pub const fn shape(&self) -> &Shape {
        &self.definition.shape
    }

    /// Refuses what makes no sense.
    pub(super) fn validate(&self) -> Result<()> {
        self.definition.validate()
    }

    /// What tells it from every other index of the table, earlier generations of itself included: the name and the first
    /// digits of the definition's fingerprint. Entries hold it.
    pub fn id(&self) -> &str {
        self.id.get_or_init(|| self.definition.id())
    }

    /// The entries of an entity of `table`: none, one, or one for each element of a list.
    ///
    /// # Errors
    /// A key cannot be made, is in a partition that the placement does not allow, or would hold an encrypted property.
    pub fn entries(&self, table: &TableName, entity: &Entity) -> Result<Vec<Entry>> {
        let entity = without_mark(entity);
        match &self.store {
            Some(store) => self.entries_of(table, &marked(&**store, table, &entity)),
            None => self.entries_of(table, &entity),
        }
    }

    fn entries_of(&self, table: &TableName, entity: &Entity) -> Result<Vec<Entry>> {
        let evaluator = self.evaluator()?;
        let in_blobs = names_in_blobs(entity);
        if !in_blobs.is_empty() {
            self.check_in_row(entity, &self.definition.properties_read()?, &in_blobs)?;
        }
        let keys = match &self.function {
            None => evaluator.entry_keys(entity)?,
            Some(keys) if evaluator.admits(entity)? => keys(entity)?,
            Some(_) => Vec::new(),
        };
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let table = match self.placement() {
            Placement::OtherTable(other) => other,
            _ => table,
        };
        let held = self.held(entity)?;
        if !in_blobs.is_empty() {
            let names: Vec<_> = held.iter().map(|property| property.name().to_owned()).collect();
            self.check_in_row(entity, &names, &in_blobs)?;
        }
        let entry = |key: Key| {
            self.check(entity.key(), &key)?;
            Ok(Entry {
                location: Location { table: table.clone(), key },
                owner: entity.key().clone(),
                properties: held.clone(),
                index: self.id().to_owned(),
                unique: self.uniqueness() != Uniqueness::No,
                shape: self.shape().clone(),
            })
        };
        keys.into_iter().map(entry).collect()
    }

    /// Refuses to make an entry of what is in a blob: the row alone says in which one, and an entry would go on naming one that
    /// is gone.
    fn check_in_row(&self, entity: &Entity, names: &[String], in_blobs: &[String]) -> Result<()> {
        let Some(name) = names.iter().find(|name| in_blobs.contains(name)) else { return Ok(()) };
        Err(Error::invalid_request(format!(
            "the index '{}' is of '{name}', which {} has in a blob: no entry can follow a large value; leave it out of keys, condition \
             and payload",
            self.name(),
            entity.key()
        )))
    }

    /// Whether the keys that Rust code gives are those that the definition gives for what is stored: not for an older row that a
    /// type converts, of which other programs, that know the definition alone, have kept the entry as it is stored.
    pub(super) fn is_as_stored(&self, entity: &Entity) -> bool {
        let Some(keys) = &self.function else { return true };
        let stored = self.evaluator().and_then(|evaluator| evaluator.entry_keys(entity));
        let (Ok(mut stored), Ok(mut derived)) = (stored, keys(entity)) else { return false };
        stored.sort();
        derived.sort();
        derived.dedup();
        stored == derived
    }

    /// Whether an entity of `table` has an entry at a location.
    pub(super) fn has_entry_at(&self, table: &TableName, entity: &Entity, at: &Location) -> Result<bool> {
        Ok(self.entries(table, entity)?.iter().any(|entry| entry.location == *at))
    }

    fn check(&self, owner: &Key, key: &Key) -> Result<()> {
        let same = owner.partition() == key.partition();
        let problem = match self.placement() {
            Placement::SamePartition if !same => "is not in the entity's partition",
            Placement::OtherPartition if same => "is in the entity's own partition",
            _ if owner == key && !matches!(self.placement(), Placement::OtherTable(_)) => {
                "is the entity's own key"
            }
            _ if self.uniqueness() == Uniqueness::WithinPartition && !same => {
                "is in another partition, so it cannot be unique within the entity's"
            }
            _ => return Ok(()),
        };
        Err(Error::invalid_request(format!(
            "the index '{}' gives {owner} the entry {key}, which {problem}",
            self.name()
        )))
    }

    /// What the entry of an entity holds.
    fn held(&self, entity: &Entity) -> Result<Properties> {
        match self.shape() {
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
        match self.payload() {
            Payload::Full => {}
            Payload::Fields(names) => copy.retain(|p| names.iter().any(|n| n == p.name())),
            Payload::Reference => copy.clear(),
        }
        if let Some((property, _)) = self.discriminator() {
            copy.remove(property);
        }
        copy
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("definition", &self.definition).finish_non_exhaustive()
    }
}
