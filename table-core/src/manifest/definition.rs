use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::{
    Discriminator, Evaluator, KeyTemplate, PartSource, Payload, Placement, Shape, TemplatePart, Text,
    Uniqueness,
};
use crate::error::{Error, Result};
use crate::model::{Entity, Key, SYSTEM_PREFIX};

/// An index, complete and as data: of which entities, where its entries are, how their keys come from an entity, and what
/// they hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// The name, which is the index's own among those of its table.
    pub name: Text,
    /// The type of the entities: rows of other types have no entry.
    pub entity: EntityType,
    /// Where entries are.
    pub placement: Placement,
    /// How their keys come from an entity.
    pub keys: IndexKeys,
    /// A filter in the service's language: an entity that does not match has no entry. It sees the entity as it is
    /// stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Text>,
    /// What entries hold.
    pub payload: Payload,
    /// How entries are kept.
    pub shape: Shape,
    /// Which other entities may have the same entry.
    pub uniqueness: Uniqueness,
}

/// How the keys of entries come from an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexKeys {
    /// By templates.
    Templates {
        /// The PartitionKey; the entity's own without a template.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition_key: Option<KeyTemplate>,
        /// The RowKey.
        row_key: KeyTemplate,
    },
    /// By a function, which cannot be stored: only programs that have it can maintain the index.
    Opaque {
        /// What stands for the function: another text for another function.
        version: Text,
    },
}

/// The type of the entities of an index: how its rows are told from others, and how their keys are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityType {
    /// The name that a discriminator holds; empty for entities of any type.
    pub name: Text,
    /// How rows of the type are told from others.
    pub discriminator: Discriminator,
    /// The template of their PartitionKeys, if the type has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<KeyTemplate>,
    /// The template of their RowKeys, if the type has one.
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

    /// Whether a row is of the type, as far as the discriminator tells.
    pub fn admits(&self, entity: &Entity) -> bool {
        self.discriminator.admits(&self.name, entity)
    }
}

impl IndexDefinition {
    /// An index with entries of references, a row each, whose keys come from templates. Without a template the
    /// PartitionKey is the entity's.
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
        Self::with_keys(name.into(), placement, IndexKeys::Templates { partition_key, row_key })
    }

    /// An index whose keys a function makes; `version` stands for the function.
    pub fn opaque(name: impl Into<Text>, placement: Placement, version: impl Into<Text>) -> Self {
        Self::with_keys(name.into(), placement, IndexKeys::Opaque { version: version.into() })
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

    /// The template of the PartitionKey, if it has one of its own.
    pub const fn partition_key(&self) -> Option<&KeyTemplate> {
        match &self.keys {
            IndexKeys::Templates { partition_key, .. } => partition_key.as_ref(),
            IndexKeys::Opaque { .. } => None,
        }
    }

    /// The template of the RowKey, unless a function makes the keys.
    pub const fn row_key(&self) -> Option<&KeyTemplate> {
        match &self.keys {
            IndexKeys::Templates { row_key, .. } => Some(row_key),
            IndexKeys::Opaque { .. } => None,
        }
    }

    /// The parts of its key templates.
    pub fn parts(&self) -> impl Iterator<Item = &TemplatePart> {
        self.partition_key().into_iter().chain(self.row_key()).flat_map(KeyTemplate::parts)
    }

    /// Whether only programs that have its Rust code can maintain it: a function makes the keys, or a part of them has an
    /// encoding or a stored form of a Rust type's own.
    pub fn is_opaque(&self) -> bool {
        matches!(self.keys, IndexKeys::Opaque { .. }) || self.parts().any(TemplatePart::is_opaque)
    }

    /// The names of the properties that its keys and its condition read.
    ///
    /// # Errors
    /// The condition is no filter.
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
            condition.parse::<crate::query::Filter>()?.for_each_property(&mut add);
        }
        Ok(names)
    }

    /// Refuses a definition that makes no sense.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn validate(&self) -> Result<()> {
        let (shape, payload) = (&self.shape, &self.payload);
        let lists: Vec<_> = self.parts().filter(|part| part.each).map(|part| &part.source).collect();
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
        } else if lists.windows(2).any(|two| two[0] != two[1]) {
            "its keys have elements of two lists: index one list, and the other by another index".to_owned()
        } else if let Some(field) = self.unknown_key_field() {
            format!("'{field}' is in no key template of the entities")
        } else {
            return self.condition().map(drop);
        };
        Err(Error::invalid_request(format!("the index '{}': {problem}", self.name)))
    }

    fn unknown_key_field(&self) -> Option<&Text> {
        let own = || [&self.entity.partition_key, &self.entity.row_key].into_iter().flatten();
        let fields = self.parts().filter(|part| matches!(part.source, PartSource::KeyField(_)));
        fields.filter(|part| !own().any(|template| template.has(&part.source))).find_map(|part| {
            match &part.source {
                PartSource::KeyField(name) => Some(name),
                _ => None,
            }
        })
    }

    /// The condition, parsed.
    pub(super) fn condition(&self) -> Result<Option<crate::query::Filter>> {
        let Some(text) = &self.condition else { return Ok(None) };
        let refused = |why: String| {
            Error::invalid_request(format!("the index '{}': its condition {text:?}: {why}", self.name))
        };
        let filter: crate::query::Filter = text.parse().map_err(|e: Error| refused(e.to_string()))?;
        let mut times = false;
        filter.for_each_property(&mut |name| times |= name == crate::query::Filter::TIMESTAMP);
        if times {
            return Err(refused("the store sets the Timestamp after the entry is written".to_owned()));
        }
        Ok(Some(filter))
    }

    /// What evaluates the definition again and again.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn evaluator(&self) -> Result<Evaluator> {
        Evaluator::new(self.clone())
    }

    /// The keys of an entity's entries: none where it has no entry, several where a part is a list. Byte for byte those that
    /// derived code gives for the entity. To evaluate many entities, keep the [`evaluator`](Self::evaluator).
    ///
    /// # Errors
    /// As for [`Evaluator::entry_keys`].
    pub fn entry_keys(&self, entity: &Entity) -> Result<Vec<Key>> {
        self.evaluator()?.entry_keys(entity)
    }

    /// The definition as JSON: two programs that write it differently do not mean the same index.
    ///
    /// ```
    /// use table_core::manifest::{IndexDefinition, Placement};
    /// let by_city = IndexDefinition::keyed("city", Placement::SamePartition, None, "city_{City}_{RowKey}".parse()?);
    /// assert_eq!(IndexDefinition::from_json(&by_city.to_json())?, by_city);
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        // Nothing in a definition can fail to be written: no maps with keys that are no text, no numbers that JSON lacks.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Back from [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// The text is no definition of this [format](super::FORMAT), or makes no sense.
    pub fn from_json(text: &str) -> Result<Self> {
        let read: Self = serde_json::from_str(text)
            .map_err(|e| Error::invalid_request(format!("no definition of an index: {e}")))?;
        read.validate()?;
        Ok(read)
    }

    /// 32 hexadecimal digits that stand for the whole definition: the XXH3 hash (128 bits) of its [JSON](Self::to_json).
    pub fn fingerprint(&self) -> String {
        format!("{:032x}", xxh3_128(self.to_json().as_bytes()))
    }
}
