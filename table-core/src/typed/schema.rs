use crate::manifest::{Discriminator, EntityType, IndexDefinition};
use crate::model::EdmType;

/// What the derive macro knows of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The Rust type, for messages.
    pub rust_name: &'static str,
    /// The name that the discriminator holds.
    pub type_name: &'static str,
    /// How its rows are told from others.
    pub discriminator: Discriminator,
    /// The schema version; stored in [`Schema::VERSION_PROPERTY`] from version 2 on, where absent
    /// means 1.
    pub version: u32,
    /// The earliest version whose programs read rows of this one as their own: `#[entity(min_reader = 2)]`; the version itself unless
    /// declared. Stored in [`Schema::READER_PROPERTY`] where it is less.
    pub min_reader: u32,
    /// The version before this one, which rows may still be stored in.
    pub previous: Option<&'static Self>,
    /// Whether the type says that it has versions, be it the first: `#[entity(version = 1)]`.
    pub has_versions: bool,
    /// The template of the partition key, for messages: `"{department}"`.
    pub partition_key: &'static str,
    /// The template of the row key, for messages: `"empid_{id:06}"`.
    pub row_key: &'static str,
    /// Whether the row key ends in text, so that others start with it: `ann`, `anna`.
    pub row_key_is_open: bool,
    /// The properties, in the order they are written; flattened structs included.
    pub properties: &'static [PropertySchema],
    /// The declared indexes, in the order they are declared.
    pub indexes: &'static [IndexDefinition],
    /// The buckets that partitions are spread over, if they are: `#[partition_key(spread = 16)]`.
    pub spread: Option<Spread>,
    /// Whether properties without a field are kept, so that reads must not project.
    pub keeps_rest: bool,
    /// Whether its properties may take several rows: `#[entity(wide)]`.
    pub wide: bool,
}

impl Schema {
    /// The property that holds the discriminator unless another is named.
    pub const TYPE_PROPERTY: &'static str = "EntityType";
    /// The property that holds the schema version.
    pub const VERSION_PROPERTY: &'static str = "EntityVersion";

    /// The property that holds the earliest version whose programs read the row.
    pub const READER_PROPERTY: &'static str = "EntityReader";

    /// The type as a manifest names it: what tells its rows, without the templates of its keys.
    pub fn entity_type(&self) -> EntityType {
        let (name, discriminator) = (self.type_name.into(), self.discriminator.clone());
        EntityType { name, discriminator, ..EntityType::ANY }
    }
}

/// How partitions are spread over buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Their number.
    pub buckets: u32,
    /// What is hashed with a RowKey to find its bucket: `#[partition_key(spread = 16, salt = "…")]`; empty
    /// unless declared.
    pub salt: &'static str,
}

impl From<u32> for Spread {
    /// So many buckets, without a salt.
    fn from(buckets: u32) -> Self {
        Self { buckets, salt: "" }
    }
}

/// One property of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertySchema {
    /// The name in the store.
    pub name: &'static str,
    /// The type in the store.
    pub edm_type: EdmType,
    /// Whether it may be absent.
    pub optional: bool,
    /// Whether it carries the *encrypt* mark.
    pub encrypted: bool,
    /// For a large property, the bytes over which its value leaves the row: `#[large(over = …)]`.
    pub large: Option<usize>,
}
