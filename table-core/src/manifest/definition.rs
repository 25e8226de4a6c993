use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::{
    Discriminator, Evaluator, KeySegment, KeyTemplate, PartSource, Payload, Placement, Shape,
    TemplatePart, Text, Uniqueness,
};
use crate::error::{Error, Result};
use crate::model::{Entity, FEED_COUNTER, Key, SERVER_TABLE, SYSTEM_PREFIX};
use crate::query::Filter;

/// The complete definition of an index, as data: the entities, the place and keys of the entries, and their content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// The name. It is unique among the indexes of entities that may be the same rows; the [id](Self::id) is unique in the table.
    pub name: Text,
    /// The type of the entities. Rows of other types have no entries.
    pub entity: EntityType,
    /// Where the entries are.
    pub placement: Placement,
    /// How the keys of the entries are computed.
    pub keys: IndexKeys,
    /// A filter in the service's language. Only entities that match have entries. It compares stored properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Text>,
    /// The properties that an entry contains.
    pub payload: Payload,
    /// How the entries are stored.
    pub shape: Shape,
    /// Whether several entities may have the same entry.
    pub uniqueness: Uniqueness,
}

/// How the keys of an index's entries are computed from an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexKeys {
    /// By templates.
    Templates {
        /// The template of the PartitionKey. Without a template, an entry has the PartitionKey of its entity.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition_key: Option<KeyTemplate>,
        /// The template of the RowKey.
        row_key: KeyTemplate,
    },
    /// By a Rust function, which cannot be stored. Only programs with the function can maintain the index.
    Opaque {
        /// Identifies the function. Use another text for another function.
        version: Text,
    },
}

/// The type of the entities of an index: its discriminator and its key templates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityType {
    /// The type name that the discriminator contains; empty for entities of any type.
    pub name: Text,
    /// How a row says that it has this type.
    pub discriminator: Discriminator,
    /// The template of the entities' PartitionKeys, if the type has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<KeyTemplate>,
    /// The template of the entities' RowKeys, if the type has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_key: Option<KeyTemplate>,
}

impl EntityType {
    /// Entities of any type, with any keys.
    pub const ANY: Self = Self {
        name: Cow::Borrowed(""),
        discriminator: Discriminator::None,
        partition_key: None,
        row_key: None,
    };

    /// Whether the discriminator admits a row. Without a discriminator, every row is admitted.
    pub fn admits(&self, entity: &Entity) -> bool {
        self.discriminator.admits(&self.name, entity)
    }
}

impl IndexDefinition {
    /// Creates an index with key templates. Its entries are rows with references. Without a template for the PartitionKey,
    /// an entry has the PartitionKey of its entity.
    ///
    /// ```
    /// use table_core::manifest::{IndexDefinition, Placement};
    /// use table_core::model::Entity;
    /// let by_email =
    ///     IndexDefinition::keyed("email", Placement::SamePartition, None, "email_{Email:lower}".parse()?);
    /// let ken = Entity::new("Sales", "223")?.with("Email", "Ken@X");
    /// assert_eq!(by_email.entry_keys(&ken)?[0].row(), "email_ken@x");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn keyed(
        name: impl Into<Text>,
        placement: Placement,
        partition_key: Option<KeyTemplate>,
        row_key: KeyTemplate,
    ) -> Self {
        Self::with_keys(
            name.into(),
            placement,
            IndexKeys::Templates {
                partition_key,
                row_key,
            },
        )
    }

    /// Creates an index whose keys a Rust function computes. `version` identifies the function.
    pub fn opaque(name: impl Into<Text>, placement: Placement, version: impl Into<Text>) -> Self {
        Self::with_keys(
            name.into(),
            placement,
            IndexKeys::Opaque {
                version: version.into(),
            },
        )
    }

    /// Creates the change feed of the entities of a type: every write of such an entity adds a row with the change.
    ///
    /// A feed is declared, built and dropped as an index is, so that every program that writes the table knows it. It has no entries.
    pub const fn feed(name: Text, discriminator: Discriminator) -> Self {
        const COUNTER: &[KeySegment] = &[KeySegment::Literal(Cow::Borrowed(FEED_COUNTER))];
        Self {
            name: Cow::Borrowed("changes"),
            // Without the templates of its keys: the feed stays the same when they change.
            entity: EntityType {
                name,
                discriminator,
                partition_key: None,
                row_key: None,
            },
            placement: Placement::SamePartition,
            keys: IndexKeys::Templates {
                partition_key: None,
                row_key: KeyTemplate::from_static(COUNTER),
            },
            condition: None,
            payload: Payload::Reference,
            shape: Shape::Feed,
            uniqueness: Uniqueness::No,
        }
    }

    /// Whether this is a change feed.
    pub const fn is_feed(&self) -> bool {
        matches!(self.shape, Shape::Feed)
    }

    fn with_keys(name: Text, placement: Placement, keys: IndexKeys) -> Self {
        Self {
            name,
            entity: EntityType::ANY,
            placement,
            keys,
            condition: None,
            payload: Payload::Reference,
            shape: Shape::Row,
            uniqueness: Uniqueness::No,
        }
    }

    /// Returns the template of the PartitionKey, if there is one.
    pub const fn partition_key(&self) -> Option<&KeyTemplate> {
        match &self.keys {
            IndexKeys::Templates { partition_key, .. } => partition_key.as_ref(),
            IndexKeys::Opaque { .. } => None,
        }
    }

    /// Returns the template of the RowKey; `None` if a function computes the keys.
    pub const fn row_key(&self) -> Option<&KeyTemplate> {
        match &self.keys {
            IndexKeys::Templates { row_key, .. } => Some(row_key),
            IndexKeys::Opaque { .. } => None,
        }
    }

    /// Iterates over the parts of the key templates.
    pub fn parts(&self) -> impl Iterator<Item = &TemplatePart> {
        self.partition_key()
            .into_iter()
            .chain(self.row_key())
            .flat_map(KeyTemplate::parts)
    }

    /// Whether only programs with the Rust code can maintain the index: a function computes the keys, or a key part has the
    /// encoding of a user-defined type.
    pub fn is_opaque(&self) -> bool {
        matches!(self.keys, IndexKeys::Opaque { .. }) || self.parts().any(TemplatePart::is_opaque)
    }

    /// Returns the names of the properties in the key templates and the condition.
    ///
    /// # Errors
    /// Fails if the condition cannot be parsed.
    pub fn properties_read(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        let mut add = |name: &str| {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        };
        for part in self.parts() {
            if let PartSource::Property(name) = &part.source {
                add(name);
            }
        }
        if let Some(condition) = &self.condition {
            condition.parse::<Filter>()?.for_each_property(&mut add);
        }
        Ok(names)
    }

    /// Checks that the parts of the definition fit together.
    ///
    /// # Errors
    /// Fails if they do not; the error names the rule.
    pub fn validate(&self) -> Result<()> {
        let (shape, payload) = (&self.shape, &self.payload);
        let lists: Vec<_> = self
            .parts()
            .filter(|part| part.each)
            .map(|part| &part.source)
            .collect();
        let problem = if self.name.starts_with(SYSTEM_PREFIX) {
            format!("names that start with '{SYSTEM_PREFIX}' are reserved for the library")
        } else if let Some(problem) = shape.problem() {
            problem
        } else if matches!(&self.placement, Placement::OtherTable(table) if table.is_server_table())
        {
            format!(
                "the table {SERVER_TABLE} has the settings of a server: put the entries into another table"
            )
        } else if shape.is_shared() && self.uniqueness != Uniqueness::No {
            format!("a {shape} contains several entities: use `Shape::Row` for a unique index")
        } else if shape.is_shared() && *payload != Payload::Reference {
            format!(
                "a {shape} has no payload: use `Payload::Reference`, or `Shape::Row` for another payload"
            )
        } else if matches!(shape, Shape::Summary { .. })
            && self.placement != Placement::SamePartition
        {
            "a summary must be in the entity's partition; in another partition a retry could add a number twice"
                .to_owned()
        } else if lists.windows(2).any(|two| two[0] != two[1]) {
            "its keys have elements of two lists: use one index per list".to_owned()
        } else if let Some(field) = self.unknown_key_field() {
            format!("'{field}' is in no key template of the entities")
        } else if self.is_feed() {
            let EntityType {
                name,
                discriminator,
                ..
            } = self.entity.clone();
            if *self == Self::feed(name, discriminator) {
                return Ok(());
            }
            "a feed is defined by its type alone: use `IndexDefinition::feed`".to_owned()
        } else if self.writes_system_rows() {
            format!(
                "keys that start with '{SYSTEM_PREFIX}' are for rows by which programs act: start the keys of the entries with other text"
            )
        } else {
            return self.condition().map(drop);
        };
        Err(Error::invalid_declaration(format!(
            "the index '{}': {problem}",
            self.name
        )))
    }

    /// Returns a field of the key templates that the keys of the entities do not have.
    fn unknown_key_field(&self) -> Option<&Text> {
        let is_in = |template: &Option<KeyTemplate>, source| {
            template.as_ref().is_some_and(|t| t.has(source))
        };
        self.parts().find_map(|part| match &part.source {
            PartSource::KeyField(name)
                if !is_in(&self.entity.partition_key, &part.source)
                    && !is_in(&self.entity.row_key, &part.source) =>
            {
                Some(name)
            }
            _ => None,
        })
    }

    /// Whether the literal text at the start of a template makes keys of system rows: `~~`, or `~` before a value, which may start with `~`.
    fn writes_system_rows(&self) -> bool {
        let IndexKeys::Templates {
            partition_key,
            row_key,
        } = &self.keys
        else {
            return false;
        };
        partition_key
            .iter()
            .chain([row_key])
            .any(|template| match template.segments() {
                [KeySegment::Literal(text)] => text.starts_with(SYSTEM_PREFIX),
                [KeySegment::Literal(text), ..] => text.starts_with(SYSTEM_PREFIX) || text == "~",
                _ => false,
            })
    }

    /// Parses the condition.
    pub(super) fn condition(&self) -> Result<Option<Filter>> {
        let Some(text) = &self.condition else {
            return Ok(None);
        };
        let refused = |reason: String| {
            Error::invalid_declaration(format!(
                "the index '{}': its condition {text:?}: {reason}",
                self.name
            ))
        };
        let filter: Filter = text.parse().map_err(|e: Error| refused(e.to_string()))?;
        let mut compares_timestamp = false;
        filter.for_each_property(&mut |name| {
            compares_timestamp |= name == Filter::TIMESTAMP;
        });
        if compares_timestamp {
            return Err(refused(
                "it compares the Timestamp, which the store sets after the entry is computed"
                    .to_owned(),
            ));
        }
        Ok(Some(filter))
    }

    /// Returns an evaluator, for many entities.
    ///
    /// # Errors
    /// Returns the errors of [`validate`](Self::validate).
    pub fn evaluator(&self) -> Result<Evaluator> {
        Evaluator::new(self.clone())
    }

    /// Returns the keys of an entity's entries: none if the entity has no entry, several if a part is a list. Derived code
    /// returns the same keys, byte for byte. For many entities, use one [`evaluator`](Self::evaluator).
    ///
    /// # Errors
    /// Returns the errors of [`evaluator`](Self::evaluator) and [`Evaluator::entry_keys`].
    pub fn entry_keys(&self, entity: &Entity) -> Result<Vec<Key>> {
        self.evaluator()?.entry_keys(entity)
    }

    /// Returns the definition as JSON. Equal definitions have equal JSON, on which the [fingerprint](Self::fingerprint)
    /// depends.
    ///
    /// ```
    /// use table_core::manifest::{IndexDefinition, Placement};
    /// let by_city = IndexDefinition::keyed("city", Placement::SamePartition, None, "city_{City}_{RowKey}".parse()?);
    /// assert_eq!(IndexDefinition::from_json(&by_city.to_json())?, by_city);
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        // Serialization cannot fail: a definition contains only texts, integers and lists.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the JSON of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// Fails if the text is not a definition in this [format](super::FORMAT); also returns the errors of
    /// [`validate`](Self::validate).
    pub fn from_json(text: &str) -> Result<Self> {
        let definition: Self = serde_json::from_str(text).map_err(|e| {
            Error::invalid_declaration(format!("the text is not an index definition: {e}"))
        })?;
        definition.validate()?;
        Ok(definition)
    }

    /// Returns 32 hexadecimal digits that identify the definition: the 128-bit XXH3 hash of its [JSON](Self::to_json).
    pub fn fingerprint(&self) -> String {
        // The order and the names of the members of the JSON are therefore a format: a program that writes other JSON
        // for the same definition would declare a second index.
        format!("{:032x}", xxh3_128(self.to_json().as_bytes()))
    }
}

/// Whether two indexes may have entries with the same key in the same table. `false` is certain; `true` may be wrong,
/// because only literal texts and lengths of the templates are compared.
///
/// ```
/// use table_core::manifest::{IndexDefinition, Placement, can_collide};
/// let index = |row: &str| IndexDefinition::keyed("i", Placement::SamePartition, None, row.parse().unwrap());
/// assert!(!can_collide(&index("email_{Email}"), &index("name_{Name}_{RowKey}")));
/// assert!(can_collide(&index("e_{Email}"), &index("e_{Name}_{RowKey}")));
/// ```
pub fn can_collide(a: &IndexDefinition, b: &IndexDefinition) -> bool {
    let same_table = match (&a.placement, &b.placement) {
        (Placement::OtherTable(a), Placement::OtherTable(b)) => {
            a.as_str().eq_ignore_ascii_case(b.as_str())
        }
        // The "other" table may be the entities' own table. A definition does not know the name of its own table.
        _ => true,
    };
    let partitions = match (a.partition_key(), b.partition_key()) {
        (Some(a), Some(b)) => can_equal(a, b),
        // The PartitionKey of the entity may be any text.
        _ => true,
    };
    let rows = match (a.row_key(), b.row_key()) {
        (Some(a), Some(b)) => can_equal(a, b),
        // A function may return any key.
        _ => true,
    };
    same_table && partitions && rows
}

/// Whether two templates may give the same text. They cannot if their first or last literals or their lengths contradict
/// each other.
fn can_equal(a: &KeyTemplate, b: &KeyTemplate) -> bool {
    // The shorter literal continues with a part, which may have any text.
    let starts = a.prefix().starts_with(b.prefix()) || b.prefix().starts_with(a.prefix());
    let ends = a.suffix().ends_with(b.suffix()) || b.suffix().ends_with(a.suffix());
    let lengths = match (a.width(), b.width()) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    starts && ends && lengths
}

/// The state of an index. The states follow each other as in an online schema change: the states that two writers use at
/// the same time differ by at most one step (Rae et al., *Online, Asynchronous Schema Change in F1*, VLDB 2013).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum IndexState {
    /// The index is not in the manifest. Writers do not maintain it.
    Absent,
    /// Writers remove entries, but do not add entries.
    DeleteOnly,
    /// Writers add and remove entries. Older entities may have no entries.
    WriteOnly,
    /// Like write-only, while a build adds the entries of older entities.
    Building,
    /// The index is complete. Lookups can use it.
    Readable,
}

impl IndexState {
    const ALL: [Self; 5] = [
        Self::Absent,
        Self::DeleteOnly,
        Self::WriteOnly,
        Self::Building,
        Self::Readable,
    ];

    /// Whether writers add and replace entries.
    pub const fn writes_entries(self) -> bool {
        matches!(self, Self::WriteOnly | Self::Building | Self::Readable)
    }

    /// Whether writers remove entries.
    pub const fn removes_entries(self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// Returns the name of the state in the manifest.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::DeleteOnly => "delete-only",
            Self::WriteOnly => "write-only",
            Self::Building => "building",
            Self::Readable => "readable",
        }
    }

    /// Returns the state with this name.
    ///
    /// # Errors
    /// Fails if there is no such state.
    pub fn parse(name: &str) -> Result<Self> {
        let state = Self::ALL.into_iter().find(|state| state.name() == name);
        state.ok_or_else(|| Error::invalid_argument(format!("'{name}' is not a state of an index")))
    }
}

impl fmt::Display for IndexState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
