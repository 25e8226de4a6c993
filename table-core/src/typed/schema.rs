use crate::manifest::{Discriminator, EntityType, Expiries, Expiry, IndexDefinition};
use crate::model::{EdmType, Entity, ValueRef, WRITE_ID_PROPERTY};
use crate::store::{Error, Result};
use crate::typed::derived::NamePieces;
use crate::typed::split::is_part;

/// The description of an entity type, from the derive macro.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The name of the Rust type, for errors.
    pub rust_name: &'static str,
    /// The type name that the discriminator contains.
    pub type_name: &'static str,
    /// How a row says that it has this type.
    pub discriminator: Discriminator,
    /// The schema version. Rows contain it in [`Schema::VERSION_PROPERTY`] from version 2 on; a row without the property
    /// has version 1.
    pub version: u32,
    /// The earliest schema version whose programs can read rows of this version: `#[entity(min_reader = 2)]`. Default:
    /// this version. If it is earlier, rows contain it in [`Schema::READER_PROPERTY`].
    pub min_reader: u32,
    /// The schema of the previous version. The table may still contain rows of it.
    pub previous: Option<&'static Self>,
    /// Whether the type declares a version, for example `#[entity(version = 1)]`.
    pub has_versions: bool,
    /// The template of the PartitionKey, for errors: `"{department}"`.
    pub partition_key: &'static str,
    /// The template of the RowKey, for errors: `"empid_{id:06}"`.
    pub row_key: &'static str,
    /// Whether the RowKey ends with text of any length, so that a RowKey can be a prefix of another: `ann`, `anna`.
    pub row_key_is_open: bool,
    /// The properties in the order in which they are written, with the properties of flattened structs.
    pub properties: &'static [PropertySchema],
    /// The declared indexes.
    pub indexes: &'static [IndexDefinition],
    /// The buckets of a spread type: `#[partition_key(spread = 16)]`.
    pub spread: Option<Spread>,
    /// Whether the type has a field for all other properties of the entity. Reads must then not use a projection.
    pub keeps_rest: bool,
    /// Whether the properties of an entity may be in several rows: `#[entity(wide)]`.
    pub wide: bool,
    /// When entities expire and how long deleted ones are kept: `#[expires]`, `#[deleted_at]`.
    pub expiry: Option<Expiry>,
}

impl Schema {
    /// The default property of the discriminator.
    pub const TYPE_PROPERTY: &'static str = "EntityType";
    /// The property with the schema version.
    pub const VERSION_PROPERTY: &'static str = "EntityVersion";
    /// The property with the earliest schema version that can read the row.
    pub const READER_PROPERTY: &'static str = "EntityReader";

    /// Returns the type as the manifest names it: type name and discriminator, without key templates.
    pub fn entity_type(&self) -> EntityType {
        let (name, discriminator) = (self.type_name.into(), self.discriminator.clone());
        EntityType {
            name,
            discriminator,
            ..EntityType::ANY
        }
    }
}

/// The buckets of a spread type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The number of buckets per logical partition.
    pub buckets: u32,
    /// A text that is hashed together with a RowKey to choose the bucket:
    /// `#[partition_key(spread = 16, salt = "…")]`. Default: empty.
    pub salt: &'static str,
}

impl From<u32> for Spread {
    /// Creates this number of buckets, without a salt.
    fn from(buckets: u32) -> Self {
        Self { buckets, salt: "" }
    }
}

/// One property of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertySchema {
    /// The name in the store.
    pub name: &'static str,
    /// The names under which older rows have the property, without [`alias_prefix`](Self::alias_prefix): `#[entity(alias = "…")]`.
    pub aliases: &'static [&'static str],
    /// The text in front of each alias: the prefix of a flattened group.
    pub alias_prefix: &'static str,
    /// The EDM type in the store.
    pub edm_type: EdmType,
    /// Whether the property may be absent.
    pub optional: bool,
    /// Whether the property has the mark: it must be stored encrypted.
    pub encrypted: bool,
    /// For a large property, the maximum number of bytes of a value in the row: `#[large(over = …)]`. A longer value is
    /// in a blob.
    pub large: Option<usize>,
    /// Whether a long value is stored in several properties: `#[entity(split)]`.
    pub split: bool,
}

impl PropertySchema {
    /// Whether rows have the property, or a part of it, under this name: its name or an alias.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        let matches = |name: &str, whole: &str| {
            name == whole || (self.split && is_part(NamePieces::of(name), whole))
        };
        let former = name.strip_prefix(self.alias_prefix);
        matches(name, self.name)
            || former.is_some_and(|name| self.aliases.iter().any(|alias| matches(name, alias)))
    }
}

impl Schema {
    /// Whether the table may contain rows of the type in a later schema version: the type declares a version, or has a
    /// discriminator, because other programs may use the table. A type with neither must be the only type of its table;
    /// its unconditional writes do not read the stored entity first.
    pub const fn may_be_newer(&self) -> bool {
        self.has_versions || !matches!(self.discriminator, Discriminator::None)
    }

    /// Returns the schema version in which an entity is stored.
    ///
    /// # Errors
    /// Fails if its version property is not an integer.
    pub fn stored_version(&self, entity: &Entity) -> Result<i64> {
        Ok(version_in(self, entity, Self::VERSION_PROPERTY)?.unwrap_or(1))
    }

    /// Whether the entity is stored in a later schema version that this version can read.
    ///
    /// # Errors
    /// Fails if a version property is not an integer.
    pub(crate) fn is_later_but_readable(&self, entity: &Entity) -> Result<bool> {
        let own = i64::from(self.version);
        Ok(self.stored_version(entity)? > own
            && version_in(self, entity, Self::READER_PROPERTY)?.is_some_and(|reader| reader <= own))
    }

    /// Removes the version properties. A merge of the other properties into a stored entity does not change the schema
    /// version of that entity.
    pub fn without_version(mut entity: Entity) -> Entity {
        for name in [Self::VERSION_PROPERTY, Self::READER_PROPERTY] {
            entity.properties_mut().remove(name);
        }
        entity
    }

    /// Checks that a program of this version may replace a stored entity. A replacement of an entity in a later version
    /// would lose its properties, unless this version can read it. For an entity of another type the version does not
    /// matter.
    ///
    /// # Errors
    /// Fails if the entity is stored in a later version that this version cannot read.
    pub fn check_replaceable(&self, entity: &Entity) -> Result<()> {
        if let Some(name) = self.discriminator.property()
            // The versions of two types are not comparable.
            && entity.get(name) != Some(ValueRef::String(self.type_name))
        {
            return Ok(());
        }
        let stored = self.stored_version(entity)?;
        if stored <= i64::from(self.version) || self.is_later_but_readable(entity)? {
            return Ok(());
        }
        let Self {
            rust_name, version, ..
        } = self;
        Err(Error::manifest_mismatch(format!(
            "{} is stored in version {stored} of the schema of {rust_name}, and this program knows version {version}: properties of \
             the later version would be lost; write the entity with a program that knows version {stored}",
            entity.key()
        )))
    }

    /// Returns what an update of a stored entity writes: the new entity, and the properties that the type does not know.
    ///
    /// # Errors
    /// Fails if the update changes the key; also returns the errors of [`keep_unknown`](Self::keep_unknown).
    #[doc(hidden)]
    pub fn updated(&self, old: &Entity, mut new: Entity) -> Result<Entity> {
        let (name, key, other) = (self.rust_name, old.key(), new.key());
        if key != other {
            return Err(Error::misuse(format!(
                "the update of the {name} {key} changes its key to {other}: use `move_to`"
            )));
        }
        self.keep_unknown(old, &mut new)?;
        Ok(new)
    }

    /// Copies the properties that the type does not know from a stored entity to the entity that replaces it. Other
    /// programs, or a later definition of the same version, may have written them.
    ///
    /// Properties that an earlier version of the type knows are not copied, because the conversion has already handled
    /// them. An entity in a later version, which this version can read, keeps its version.
    ///
    /// # Errors
    /// Fails if the version property of the stored entity is not an integer.
    pub fn keep_unknown(&self, old: &Entity, new: &mut Entity) -> Result<()> {
        let version = self.stored_version(old)?;
        if version > i64::from(self.version) {
            // The row stays a row of the later version: with this program's version in it, later programs would
            // convert it from this version and lose what only they know.
            for name in [Self::VERSION_PROPERTY, Self::READER_PROPERTY] {
                new.properties_mut().remove(name);
                if let Some(value) = old.get(name) {
                    new.properties_mut().push(name, value, false);
                }
            }
        }
        // A type with a field for all other properties has decided about them.
        if self.keeps_rest
            && self
                .of_version(version)
                .is_none_or(|read_by| read_by.keeps_rest)
        {
            return Ok(());
        }
        for property in old.properties() {
            let name = property.name();
            if !self.has_known_name(name) && name != WRITE_ID_PROPERTY && new.get(name).is_none() {
                new.properties_mut()
                    .push(name, property.value(), property.is_encrypted());
            }
        }
        Ok(())
    }

    /// Returns the properties that every row of the type has under these names: not the optional ones, and none if rows of an earlier version may
    /// be stored.
    pub(super) fn required_in_rows(&self) -> Vec<&'static str> {
        let properties = self.properties.iter().filter(|property| {
            self.previous.is_none() && !property.optional && property.aliases.is_empty()
        });
        properties.map(|property| property.name).collect()
    }

    /// Checks that entities of the type are stored as one row under their key.
    ///
    /// # Errors
    /// Fails for a spread or wide type.
    pub(super) fn check_one_row(&self) -> Result<()> {
        let (reason, table) = match self {
            Self {
                spread: Some(_), ..
            } => (
                "its key is stored with a bucket",
                "`table_patterns::spread::SpreadTable`",
            ),
            Self { wide: true, .. } => (
                "it may take several rows",
                "`table_patterns::wide::WideTable`",
            ),
            _ => return Ok(()),
        };
        let name = self.rust_name;
        Err(Error::misuse(format!(
            "a {name} is not stored as one row under its key: {reason}; write it through a {table}"
        )))
    }

    /// Returns the schema of a version, from this version or an earlier one.
    fn of_version(&self, version: i64) -> Option<&Self> {
        let mut schema = Some(self);
        while let Some(one) = schema.filter(|one| i64::from(one.version) != version) {
            schema = one.previous;
        }
        schema
    }

    /// Whether rows of this version or of an earlier one have a property of the type under this name.
    pub(super) fn has_known_name(&self, name: &str) -> bool {
        [Self::VERSION_PROPERTY, Self::READER_PROPERTY].contains(&name)
            || self.discriminator.property() == Some(name)
            || self
                .properties
                .iter()
                .any(|property| property.has_name(name))
            || self
                .previous
                .is_some_and(|previous| previous.has_known_name(name))
    }
}

/// Returns the version in a property of an entity.
fn version_in(schema: &Schema, entity: &Entity, name: &str) -> Result<Option<i64>> {
    match entity.get(name) {
        None => Ok(None),
        Some(ValueRef::Int32(version)) => Ok(Some(version.into())),
        Some(ValueRef::Int64(version)) => Ok(Some(version)),
        Some(other) => {
            let found = other.edm_type().name();
            Err(Error::decode(
                schema.rust_name,
                entity.key(),
                name,
                "a schema version (integer)",
                found,
            ))
        }
    }
}

/// What a type requires of its table: the store, the handle and the other programs that write it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirements {
    /// The schemas of the entities that the type is read from: one for an entity or a projection of it, several for an
    /// enum, none for a type that is read from any entity.
    pub schemas: Vec<&'static Schema>,
    /// The properties that are stored encrypted. The store of the table must encrypt them.
    pub encrypted: Vec<&'static str>,
    /// The properties that are stored in plaintext. No rule of the store may encrypt them.
    pub unencrypted: Vec<&'static str>,
    /// The properties whose values may be in blobs. Only a handle for large entities accepts such a type.
    pub large: Vec<&'static str>,
    /// The buckets of a spread type. Only a handle for spread tables accepts such a type.
    pub spread: Option<Spread>,
    /// Whether the properties of an entity may be in several rows. Only a handle for wide entities accepts such a type.
    pub wide: bool,
    /// The declared indexes. Writes must write their entries too.
    pub indexes: Vec<&'static IndexDefinition>,
}

impl Requirements {
    /// Returns the requirements of an entity with this schema.
    pub fn of(schema: &'static Schema) -> Self {
        let large = schema.properties.iter().filter(|p| p.large.is_some());
        Self {
            schemas: vec![schema],
            large: large.map(|p| p.name).collect(),
            spread: schema.spread,
            wide: schema.wide,
            indexes: schema.indexes.iter().collect(),
            ..Self::default()
        }
        .with_properties(schema.properties)
    }

    /// Returns the requirements of a type that has only these properties of the entity, none of which is large.
    #[must_use]
    pub fn projected(self, properties: &[PropertySchema]) -> Self {
        Self {
            large: Vec::new(),
            ..self.with_properties(properties)
        }
    }

    /// Returns the requirements of an enum over several types.
    pub fn all(types: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        for one in types {
            all.schemas.extend(one.schemas);
            all.encrypted.extend(one.encrypted);
            all.unencrypted.extend(one.unencrypted);
            all.large.extend(one.large);
            all.spread = all.spread.or(one.spread);
            all.wide |= one.wide;
            all.indexes.extend(one.indexes);
        }
        all
    }

    /// Returns the types that expire.
    pub fn expiries(&self) -> Expiries {
        let expiry =
            |schema: &&'static Schema| Some((schema.entity_type(), schema.expiry.clone()?));
        Expiries::new(self.schemas.iter().filter_map(expiry))
    }

    /// Returns the properties with the times of expiry and deletion.
    pub fn times(&self) -> Vec<&str> {
        let expiries = self
            .schemas
            .iter()
            .filter_map(|schema| schema.expiry.as_ref());
        expiries
            .flat_map(|expiry| expiry.names().map(|name| &**name))
            .collect()
    }

    fn with_properties(self, properties: &[PropertySchema]) -> Self {
        let names = |encrypted| {
            properties
                .iter()
                .filter(move |p| p.encrypted == encrypted)
                .map(|p| p.name)
        };
        Self {
            encrypted: names(true).collect(),
            unencrypted: names(false).collect(),
            ..self
        }
    }
}
