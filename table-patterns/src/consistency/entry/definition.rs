//! [`Index`]: an index definition with the Rust code of its keys; it derives the entries of an entity.

use std::fmt;
use std::sync::{Arc, OnceLock};

use table_core::limits;
use table_core::manifest::{
    Discriminator, EntityType, Evaluator, IndexDefinition, KeyTemplate, Text, index_name,
};
pub use table_core::manifest::{Payload, Placement, Uniqueness};
use table_core::model::{Entity, Key, Properties, TableName, entry_id};
use table_core::store::{Error, Result, TableStore};

use super::row_properties::without_mark;
use super::shared::{contribution, without_copies};
use super::{Entry, Location, Shape};
use crate::blobs::names_in_blobs;
use crate::rows::encrypted::marked;
use crate::rows::{is_of_later_version, is_version_property};

/// Derives the keys of an entity's entries.
type KeysOf = Arc<dyn Fn(&Entity) -> Result<Vec<Key>> + Send + Sync>;

/// The definition of an index: the place, the content and the keys of its entries.
///
/// ```
/// use table_core::model::{Key, ValueRef};
/// use table_patterns::index::{Index, Payload, Placement};
/// // Employees by e-mail address, in the employee's partition: the guide's intra-partition index.
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
    /// The Rust code that derives the keys; `None`: the definition's templates derive them.
    function: Option<KeysOf>,
    evaluator: OnceLock<Evaluator>,
    id: OnceLock<String>,
    /// Properties that copy indexes write into the entities; full payloads omit them.
    foreign: Arc<[String]>,
    /// The store of the open table, which knows the encrypted properties.
    store: Option<Arc<dyn TableStore>>,
}

impl Index {
    /// Creates an index of references whose keys a function derives; `None` means no entry (sparse).
    ///
    /// Such an index is *opaque*: the manifest cannot store a function, so only programs with the function can
    /// maintain the index. Use [`keyed`](Self::keyed) for keys that templates can express. Nor can the manifest
    /// compare functions: `version` stands for the function. Change `version` (to `"2"`, for example) whenever
    /// the function derives other keys. That creates another generation of the index, to be
    /// [built](crate::index::IndexedEntities::build) after the earlier generation is
    /// [dropped](crate::index::IndexedEntities::drop_index).
    ///
    /// The function sees encrypted properties as plaintext, and keys are stored as plaintext. Derive such keys
    /// by a blind index (`table_encryption::BlindIndex`).
    ///
    /// The function must always return the same key for the same entity. Without a uniqueness, the key must
    /// include the entity's own key, so that two entities never have the same entry, not even at different
    /// times. A write whose entry collides with an entry of another entity fails with
    /// [`KeyCollision`](table_core::store::ErrorKind::KeyCollision). With a local entry, nothing is written.
    /// With a remote entry, the entity is written, its entry is not, and the outcome of the error is *applied*. The same holds where a row of
    /// another index, or an entity, is at the key. A [scrub](crate::index::IndexedEntities::scrub) reports the key, and adds the entry after the
    /// other row is gone. A store that is [served](table_core::store::LocalWriters::serve) refuses such a write before anything is written.
    /// A table of entries may serve the entities of several tables: a row there names the table of its entity. It must exist, and
    /// the program that declares the index gives its consent (`docs/manifest.md`).
    pub fn new(
        name: impl Into<String>,
        placement: Placement,
        version: impl Into<String>,
        key: impl Fn(&Entity) -> Result<Option<Key>> + Send + Sync + 'static,
    ) -> Self {
        let definition = IndexDefinition::opaque(name.into(), placement, version.into());
        Self::derived(definition, move |entity| {
            Ok(key(entity)?.into_iter().collect())
        })
    }

    /// Creates an index whose keys come from templates: text with properties in braces, such as a composite
    /// key. An entity without one of the properties has no entry. Every program can maintain such an index from
    /// its [definition](Self::definition).
    ///
    /// | piece | writes |
    /// |---|---|
    /// | `{Name}` | the property as a key part of its stored type: text escaped, numbers so that they sort |
    /// | `{Name:u64}` | the property as a key part of this type, for every stored integer type: `text`, `bool`, `u8` to `u64`, `i8` to `i64`, `f64`, `time`, `uuid` |
    /// | `{Name:06}` | a whole number, not negative, in 6 digits |
    /// | `{Name:desc}` | a number or a time so that the largest or latest sorts first |
    /// | `{Name:lower}` | a text in lower case |
    /// | `{Name:prefix(3)}` | the first 3 characters of a text |
    /// | `{Name:date}`, `{Name:hour}` | the UTC day `2026-11-22` or hour `2026-11-22T18` of a time |
    /// | `{Name#16}` | the [shard](crate::index::Shards) of a text among 16 |
    /// | `{Name[]}` | an element of a list that is stored as JSON text: one entry for each element |
    /// | `{PartitionKey}`, `{RowKey}` | the entity's own keys |
    ///
    /// Words combine from left to right: `{Email:lower:prefix(3)}`, `{Email:lower#16}`, `{Tags[]:lower}`. `{{`
    /// and `}}` are braces.
    ///
    /// Without a template for the PartitionKey, the entry's PartitionKey is the entity's. The templates are
    /// part of the definition, so the manifest notices a changed template.
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
    /// A key is plaintext, so no encrypted property can be part of it. An entity that marks such a property is
    /// refused. So is the index, if a rule of the store encrypts the property.
    ///
    /// # Errors
    /// A template does not parse.
    pub fn keyed(name: &str, placement: Placement, partition: &str, row: &str) -> Result<Self> {
        let partition: Option<KeyTemplate> = if partition.is_empty() {
            None
        } else {
            Some(partition.parse()?)
        };
        Self::from_definition(IndexDefinition::keyed(
            name.to_owned(),
            placement,
            partition,
            row.parse()?,
        ))
    }

    /// Creates the index of a definition, such as a definition that a derived type declares
    /// (`T::SCHEMA.indexes`). A program without the type maintains the index from the definition.
    ///
    /// # Errors
    /// The definition is inconsistent, or opaque.
    pub fn from_definition(definition: IndexDefinition) -> Result<Self> {
        if definition.is_opaque() {
            let name = &definition.name;
            let reason = format!(
                "the index '{name}' is opaque: Rust code derives its keys, and this program does not have that code; create the index by \
                 `Index::new` with the code"
            );
            return Err(Error::manifest_mismatch(reason));
        }
        let evaluator = OnceLock::from(definition.evaluator()?);
        Ok(Self {
            evaluator,
            ..Self::with_function(definition, None)
        })
    }

    /// Creates the index of a definition whose keys Rust code derives.
    pub(crate) fn derived(
        definition: IndexDefinition,
        keys: impl Fn(&Entity) -> Result<Vec<Key>> + Send + Sync + 'static,
    ) -> Self {
        Self::with_function(definition, Some(Arc::new(keys)))
    }

    /// Creates a feed, which has no entries.
    pub(crate) fn without_entries(definition: IndexDefinition) -> Self {
        Self::with_function(definition, None)
    }

    fn with_function(definition: IndexDefinition, function: Option<KeysOf>) -> Self {
        let (evaluator, id) = (OnceLock::new(), OnceLock::new());
        Self {
            definition,
            function,
            evaluator,
            id,
            foreign: Arc::default(),
            store: None,
        }
    }

    /// Creates as much of an index as its stored rows show: enough to delete them, not to derive keys.
    pub(crate) fn of_rows(id: &str, table: Option<&TableName>, shape: Shape) -> Self {
        let placement = table.map_or(Placement::OtherPartition, |table| {
            Placement::OtherTable(table.clone())
        });
        let index =
            Self::new(index_name(id).to_owned(), placement, "", |_| Ok(None)).with_shape(shape);
        Self {
            id: OnceLock::from(id.to_owned()),
            ..index
        }
    }

    fn change(mut self, change: impl FnOnce(&mut IndexDefinition)) -> Self {
        change(&mut self.definition);
        // Both were computed from the definition as it was.
        (self.evaluator, self.id) = (OnceLock::new(), OnceLock::new());
        self
    }

    /// The compiled definition; compiled at the first use.
    fn evaluator(&self) -> Result<&Evaluator> {
        if let Some(evaluator) = self.evaluator.get() {
            return Ok(evaluator);
        }
        let evaluator = self.definition.evaluator()?;
        // A `OnceLock` cannot be initialized by work that may fail. Two threads may compile, and both get the
        // first result.
        Ok(self.evaluator.get_or_init(|| evaluator))
    }

    /// Sets the payload: what an entry holds of its entity.
    #[must_use]
    pub fn with_payload(self, payload: Payload) -> Self {
        self.change(|definition| definition.payload = payload)
    }

    /// Restricts the index to entities that match a filter: a sparse index. The filter sees the entity as
    /// stored, and is part of the definition.
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
    /// The text is not a filter, or the filter reads the Timestamp, which the service sets after the entry is
    /// written.
    pub fn with_condition(self, filter: impl Into<String>) -> Result<Self> {
        let filter = filter.into();
        let changed = self.change(|definition| definition.condition = Some(filter.into()));
        changed.evaluator()?;
        Ok(changed)
    }

    /// Sets the shape: a row for each entry, or a row that several entities share.
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

    /// Leaves the properties that copy indexes write out of full payloads.
    pub(crate) fn with_foreign_properties(mut self, names: Arc<[String]>) -> Self {
        self.foreign = names;
        self
    }

    /// The properties that templates and condition read.
    pub(crate) fn properties_read(&self) -> Result<Vec<String>> {
        self.definition.properties_read()
    }

    /// Binds the index to a store: entries mark the properties that the store encrypts.
    pub(crate) fn over(mut self, store: &Arc<dyn TableStore>) -> Self {
        self.store = Some(Arc::clone(store));
        self
    }

    /// Requires that no two entities of a partition have the same entry.
    #[must_use]
    pub fn unique_within_partition(self) -> Self {
        self.change(|definition| definition.uniqueness = Uniqueness::WithinPartition)
    }

    /// Requires that no two entities of the table have the same entry.
    #[must_use]
    pub fn unique_within_table(self) -> Self {
        self.change(|definition| definition.uniqueness = Uniqueness::WithinTable)
    }

    /// Restricts the index to the entities of one type, which have this value in this property. Entries do not
    /// hold the property, so no query for the type returns entries. A read of an entry as the entity adds the
    /// property again.
    #[must_use]
    pub fn with_discriminator(self, property: impl Into<String>, value: impl Into<String>) -> Self {
        let (property, value) = (Text::from(property.into()), Text::from(value.into()));
        self.change(|definition| {
            let discriminator = Discriminator::Property(property);
            definition.entity = EntityType {
                name: value,
                discriminator,
                ..definition.entity.clone()
            };
        })
    }

    /// The property and value that distinguish the entity's type.
    pub(crate) fn discriminator(&self) -> Option<(&str, &str)> {
        let EntityType {
            name,
            discriminator,
            ..
        } = &self.definition.entity;
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

    /// The place of the entries: the entity's partition, another partition or another table.
    pub const fn placement(&self) -> &Placement {
        &self.definition.placement
    }

    /// The table of the entries of an index of the table `own`.
    pub(crate) const fn table<'a>(&'a self, own: &'a TableName) -> &'a TableName {
        match self.placement() {
            Placement::OtherTable(other) => other,
            Placement::SamePartition | Placement::OtherPartition => own,
        }
    }

    /// The other table of the entries of an index of the table `own`; `None` if they are in that table.
    pub(crate) fn other_table(&self, own: &TableName) -> Option<&TableName> {
        match self.placement() {
            // Names that differ in case only are the same table in most stores.
            Placement::OtherTable(other) if !other.as_str().eq_ignore_ascii_case(own.as_str()) => {
                Some(other)
            }
            _ => None,
        }
    }

    /// The text by which the rows of this index of the table `own` are known: see [`entry_id`].
    pub(crate) fn entry_id(&self, own: &TableName) -> String {
        entry_id(self.id(), self.other_table(own).map(|_| own))
    }

    /// The content of the entries.
    pub const fn payload(&self) -> &Payload {
        &self.definition.payload
    }

    /// The scope in which no two entities have the same entry.
    pub const fn uniqueness(&self) -> Uniqueness {
        self.definition.uniqueness
    }

    /// The shape of the rows.
    pub const fn shape(&self) -> &Shape {
        &self.definition.shape
    }

    /// Refuses an inconsistent definition.
    pub(crate) fn validate(&self) -> Result<()> {
        self.definition.validate()
    }

    /// The id: the name and the first digits of the definition's fingerprint. It distinguishes the index from
    /// every other index of the table, and from earlier generations of the same name. Entries hold it.
    pub fn id(&self) -> &str {
        self.id.get_or_init(|| self.definition.id())
    }

    /// The entries of an entity of `table`: none, one, or one for each element of a list.
    ///
    /// # Errors
    /// A key cannot be derived, is in a partition that the placement does not allow, or would hold an encrypted
    /// property.
    pub fn entries(&self, table: &TableName, entity: &Entity) -> Result<Vec<Entry>> {
        // The mark of a move is a part of the row and not of the entity: no condition and no payload sees it.
        let entity = without_mark(entity);
        match &self.store {
            Some(store) => self.entries_of(table, &marked(&**store, table, &entity)),
            None => self.entries_of(table, &entity),
        }
    }

    fn entries_of(&self, table: &TableName, entity: &Entity) -> Result<Vec<Entry>> {
        let evaluator = self.evaluator()?;
        if self.definition.is_feed() {
            return Ok(Vec::new());
        }
        let in_blobs = names_in_blobs(entity);
        if !in_blobs.is_empty() {
            self.check_in_row(entity, &self.definition.properties_read()?, &in_blobs)?;
        }
        if !evaluator.admits(entity)? {
            return Ok(Vec::new());
        }
        let payload = self.payload_of(entity)?;
        self.check_bytes(entity, evaluator.most_entries(entity)?, &payload)?;
        let keys = self.keys_of(entity, evaluator)?;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (id, table) = (self.entry_id(table), self.table(table));
        if !in_blobs.is_empty() {
            let names: Vec<_> = payload
                .iter()
                .map(|property| property.name().to_owned())
                .collect();
            self.check_in_row(entity, &names, &in_blobs)?;
        }
        let entry = |key: Key| {
            self.check_key(entity.key(), &key)?;
            Ok(Entry {
                location: Location {
                    table: table.clone(),
                    key,
                },
                owner: entity.key().clone(),
                properties: payload.clone(),
                index: id.clone(),
                unique: self.uniqueness() != Uniqueness::No,
                shape: self.shape().clone(),
            })
        };
        keys.into_iter().map(entry).collect()
    }

    /// Refuses an entity whose entries would have too many bytes, before any of them exists: every entry of a list has the whole
    /// payload.
    fn check_bytes(&self, entity: &Entity, entries: usize, payload: &Properties) -> Result<()> {
        let bytes = entries.saturating_mul(payload.as_packed().len());
        if bytes <= limits::DERIVED_BYTES {
            return Ok(());
        }
        let (index, key, most) = (self.name(), entity.key(), limits::DERIVED_BYTES);
        let quantity = format!(
            "bytes of properties in the {entries} entries of {key} in the index '{index}' (give the index a smaller payload, or shorten the \
             list in its keys)"
        );
        Err(Error::limit(quantity, most, bytes))
    }

    /// The keys of the entries of an entity.
    fn keys_of(&self, entity: &Entity, evaluator: &Evaluator) -> Result<Vec<Key>> {
        let Some(keys) = &self.function else {
            return evaluator.entry_keys(entity);
        };
        if !evaluator.admits(entity)? {
            return Ok(Vec::new());
        }
        match keys(entity) {
            // The Rust type cannot read the entity, but its definition can: a program of the later version stores the same properties from which
            // it derives the keys.
            Err(error) if is_of_later_version(&error) => {
                evaluator.entry_keys(entity).map_err(|_| error)
            }
            keys => keys,
        }
    }

    /// Refuses an entry of a value in a blob: only the entity's row names the current blob, and an entry would
    /// name a deleted blob.
    fn check_in_row(&self, entity: &Entity, names: &[String], in_blobs: &[String]) -> Result<()> {
        let Some(name) = names.iter().find(|name| in_blobs.contains(name)) else {
            return Ok(());
        };
        Err(Error::invalid_declaration(format!(
            "the index '{}' uses the property '{name}', whose value {} keeps in a blob: an entry cannot follow a large value; remove \
             the property from the keys, the condition and the payload of the index",
            self.name(),
            entity.key()
        )))
    }

    /// Whether the Rust code derives the same keys as the definition does from the stored properties. They
    /// differ for an older row that a type converts: programs that know only the definition maintain the entry
    /// of the stored properties.
    pub(crate) fn derives_stored_keys(&self, entity: &Entity) -> bool {
        if self.function.is_none() {
            return true;
        }
        let keys = self
            .evaluator()
            .and_then(|of| Ok((of.entry_keys(entity)?, self.keys_of(entity, of)?)));
        let Ok((mut stored, mut derived)) = keys else {
            return false;
        };
        stored.sort();
        derived.sort();
        // `entry_keys` returns each key once. Rust code may return a key twice.
        derived.dedup();
        stored == derived
    }

    /// The entries that the definition alone derives from the stored properties, without the Rust code. None where a
    /// property is missing that the keys need: no program has written such an entry.
    pub(crate) fn stored_entries(&self, table: &TableName, entity: &Entity) -> Result<Vec<Entry>> {
        let is_summary = matches!(self.shape(), Shape::Summary { .. });
        if is_summary || self.evaluator()?.entry_keys(entity).is_err() {
            return Ok(Vec::new());
        }
        Self {
            function: None,
            ..self.clone()
        }
        .entries(table, entity)
    }

    /// Whether a lookup that has found an entry at `at` may return this entity. If the Rust type cannot read the entity, the entries of its
    /// stored properties decide: the lookup then reports that entity as unreadable, or a projection reads the other properties.
    pub(crate) fn matches_origin(
        &self,
        table: &TableName,
        entity: &Entity,
        at: &Location,
    ) -> Result<bool> {
        let found = self.has_entry_at(table, entity, at);
        match &found {
            Err(error) if error.is_of_one_entity() => {
                let stored = self.stored_entries(table, entity).unwrap_or_default();
                if stored.iter().any(|entry| entry.location == *at) {
                    Ok(true)
                } else {
                    found
                }
            }
            _ => found,
        }
    }

    /// Whether the entry at a location may show this content: the key of its owner with the properties of its payload.
    ///
    /// Every program that writes the table can write a row like an entry, and the entry of another write can be stale. So the content must
    /// have this entry, as far as it has what the keys need: the whole entity, or the properties that the keys read. Otherwise only the
    /// owner's key is compared with the type and the place of the index.
    pub(crate) fn may_show(
        &self,
        table: &TableName,
        shown: &Entity,
        at: &Location,
    ) -> Result<bool> {
        let EntityType {
            partition_key,
            row_key,
            ..
        } = &self.definition.entity;
        let fits = |template: &Option<KeyTemplate>, text| {
            template.as_ref().is_none_or(|template| template.fits(text))
        };
        let has_key_of_type = self.definition.entity.admits(shown)
            && fits(partition_key, shown.key().partition())
            && fits(row_key, shown.key().row());
        if !has_key_of_type || self.check_key(shown.key(), &at.key).is_err() {
            return Ok(false);
        }
        let read = self.definition.properties_read()?;
        // A full payload leaves out what copy indexes have written into the entity.
        let reads_copies = read.iter().any(|name| self.foreign.contains(name))
            || self.definition.is_opaque() && !self.foreign.is_empty();
        let is_whole = *self.payload() == Payload::Full && !reads_copies && !shown.is_ciphertext();
        if !is_whole && !self.payload_has(&read) {
            return Ok(true);
        }
        if !self.definition.is_opaque() {
            let stored = self.stored_entries(table, shown).unwrap_or_default();
            if stored.iter().any(|entry| entry.location == *at) {
                return Ok(true);
            }
        }
        if is_whole && self.function.is_some() {
            self.has_entry_at(table, shown, at)
        } else {
            Ok(false)
        }
    }

    /// Whether the payload has all properties that the keys and the condition read.
    fn payload_has(&self, read: &[String]) -> bool {
        let Payload::Fields(names) = self.payload() else {
            return false;
        };
        let discriminator = self.discriminator().map(|(property, _)| property);
        !self.definition.is_opaque()
            && read.iter().all(|name| {
                let is_copied =
                    names.iter().any(|field| field == name) && !self.foreign.contains(name);
                is_copied || discriminator == Some(name.as_str())
            })
    }

    /// The type of an entity, if this is a feed that records the changes of the entity.
    pub(crate) fn recorded_type(&self, entity: &Entity) -> Result<Option<&EntityType>> {
        let is_recorded = self.definition.is_feed() && self.evaluator()?.admits(entity)?;
        Ok(is_recorded.then_some(&self.definition.entity))
    }

    /// Whether an entity of `table` has an entry at a location.
    pub(crate) fn has_entry_at(
        &self,
        table: &TableName,
        entity: &Entity,
        at: &Location,
    ) -> Result<bool> {
        Ok(self
            .entries(table, entity)?
            .iter()
            .any(|entry| entry.location == *at))
    }

    /// Refuses a key that the placement or the uniqueness does not allow.
    fn check_key(&self, owner: &Key, key: &Key) -> Result<()> {
        let same = owner.partition() == key.partition();
        let problem = match self.placement() {
            // A client that writes the entity would write a row by which programs act, such as one of a manifest.
            _ if key.is_system() => "is the key of a system row",
            Placement::SamePartition if !same => "is not in the entity's partition",
            Placement::OtherPartition if same => "is in the entity's own partition",
            // The entry would replace its entity.
            _ if owner == key && !matches!(self.placement(), Placement::OtherTable(_)) => {
                "is the entity's own key"
            }
            _ if self.uniqueness() == Uniqueness::WithinPartition && !same => {
                "is in another partition, so it cannot be unique within the entity's partition"
            }
            _ => return Ok(()),
        };
        Err(Error::invalid_declaration(format!(
            "the index '{}' gives {owner} the entry {key}, which {problem}",
            self.name()
        )))
    }

    /// The properties that the entry of an entity holds.
    fn payload_of(&self, entity: &Entity) -> Result<Properties> {
        match self.shape() {
            Shape::Row => Ok(self.row_payload(entity.properties())),
            Shape::List { .. } | Shape::Blob | Shape::Feed => Ok(Properties::new()),
            Shape::Summary { .. } => contribution(entity, self.shape()),
            Shape::Copy { fields, .. } => {
                let mut properties = entity.properties().clone();
                properties.retain(|p| fields.iter().any(|field| field == p.name()));
                Ok(properties)
            }
        }
    }

    /// The properties of an entry that is a row.
    fn row_payload(&self, properties: &Properties) -> Properties {
        let mut copy = properties.clone();
        without_copies(&mut copy, &self.foreign);
        match self.payload() {
            Payload::Full => {}
            // An entry is read as its entity is, so it holds the schema version of the entity. The definition does not list these properties: it
            // would then change with the version of the type, and the index would become another generation.
            Payload::Fields(names) => {
                copy.retain(|p| {
                    is_version_property(p.name()) || names.iter().any(|n| n == p.name())
                });
            }
            Payload::Reference => copy.clear(),
        }
        // So no query for the type finds the entry: see `with_discriminator`.
        if let Some((property, _)) = self.discriminator() {
            copy.remove(property);
        }
        copy
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("definition", &self.definition)
            .finish_non_exhaustive()
    }
}
