use crate::model::Key;
use crate::store::Result;
use crate::typed::TableEntity;

/// Where the entries of a declared index are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPlacement {
    /// In the entity's partition: written with it, atomically.
    SamePartition,
    /// In other partitions of the same table.
    OtherPartition,
    /// In another table.
    OtherTable(&'static str),
}

/// What the entries of a declared index hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPayload {
    /// Every property.
    Full,
    /// These properties.
    Fields(&'static [&'static str]),
    /// The entity's key alone.
    Reference,
}

/// How the entries of one key are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexShape {
    /// A row for each entity.
    #[default]
    Row,
    /// One row for each value, with a list of references in it: the guide's index entity.
    List {
        /// How many bytes of references one list entity holds; as many as fit if nothing is said.
        bytes: Option<usize>,
        /// Where references go that do not fit.
        overflow: ListOverflow,
    },
    /// One blob for each value, with a list of references in it.
    Blob,
}

impl IndexShape {
    /// Lists that fill an entity, and then go on in another.
    pub const LIST: Self = Self::List { bytes: None, overflow: ListOverflow::Entities };
}

/// Where references go that do not fit into a list entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOverflow {
    /// Into more list entities beside it.
    Entities,
    /// All of the list into a blob.
    Blob,
}

/// Which other entities may have the same entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexUniqueness {
    /// Any.
    No,
    /// None in the entity's partition.
    Partition,
    /// None in the table.
    Table,
}

/// How a part of a template is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartEncoding {
    /// [`KeyPart::ENCODING`](crate::model::KeyPart::ENCODING) of the field's type.
    pub name: &'static str,
    /// The characters that it takes, where the template does not say and they do not vary.
    pub width: Option<usize>,
}

/// What `#[index(…)]` declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSchema {
    /// The name, by which the catalog knows it.
    pub name: &'static str,
    /// Where entries are.
    pub placement: IndexPlacement,
    /// What they hold.
    pub payload: IndexPayload,
    /// How those of one key are kept.
    pub shape: IndexShape,
    /// Who else may have the same.
    pub uniqueness: IndexUniqueness,
    /// The template of the entries' PartitionKey; the entity's own if it is empty.
    pub partition_key: &'static str,
    /// The template of the entries' RowKey.
    pub row_key: &'static str,
    /// The encodings of the templates' parts, those of the PartitionKey first: with another type of a field the
    /// same template gives other keys.
    pub parts: &'static [PartEncoding],
}

/// A struct with declared indexes. Derived with the entity where it has `#[index(name, …)]`:
///
/// | setting | says |
/// |---|---|
/// | `row_key = "…"` | the RowKey of entries: text and fields in braces, as in the entity's own |
/// | `partition_key = "…"` | their PartitionKey; without it the entity's. `{email#16}` is the [shard](crate::model::Shards) of a text among 16: the row key starts with that field then, `T::by_name(…)` finds the shard by the value, and `T::name_shards()` names all of them |
/// | `table = "…"` | another table |
/// | `payload = full`, `fields(a, b)`, `reference` | what entries hold: a reference if nothing is said |
/// | `shape = row`, `list`, `blob` | a row for each entity, or a list or blob for each value; `list(bytes = 65536, overflow = blob)` says how much a list entity holds, and where more goes: into more of them, or into a blob |
/// | `unique = "partition"`, `"table"` | that no other entity there has the same entry |
#[diagnostic::on_unimplemented(
    message = "`{Self}` declares no indexes",
    note = "add `#[index(name, row_key = \"…\")]` to the struct, beside `#[derive(TableEntity)]`"
)]
pub trait IndexedEntity: TableEntity {
    /// The key of its entry in an index, by the index's place in [`Schema::indexes`](super::super::Schema);
    /// `None` if a part of the key is absent, so that there is no entry.
    ///
    /// # Errors
    /// A key part does not fit, the key is too long, or it is one that an entity could have.
    fn index_key(&self, index: usize) -> Result<Option<Key>>;
}
