//! What `#[index(…)]` says, as an [`Index`].

use table_core::model::{Entity, Key, TableName};
use table_core::store::Result;
use table_core::typed::{
    Discriminator, IndexPayload, IndexPlacement, IndexSchema, IndexShape, IndexUniqueness, IndexedEntity,
    ListOverflow, PartEncoding, Schema,
};

use crate::index::definition::{Index, Payload, Placement};
use crate::index::shape::{Overflow, Shape};

/// The index that a type declares.
pub(super) fn declared<T: IndexedEntity>(n: usize, schema: &'static IndexSchema) -> Result<Index> {
    let placement = match schema.placement {
        IndexPlacement::SamePartition => Placement::SamePartition,
        IndexPlacement::OtherPartition => Placement::OtherPartition,
        IndexPlacement::OtherTable(name) => Placement::OtherTable(TableName::new(name)?),
    };
    let (partition, row) = (schema.partition_key, schema.row_key);
    let templates = format!("{partition}|{row}{} of {}", encodings(schema), told(T::SCHEMA));
    let index = Index::new(schema.name, placement, templates, move |e| key_of::<T>(n, e))
        .with_payload(payload(T::SCHEMA, schema.payload))
        .with_shape(shape(schema.shape));
    let index = match T::SCHEMA.discriminator {
        Discriminator::Property(name) => index.with_discriminator(name, T::SCHEMA.type_name),
        _ => index,
    };
    Ok(match schema.uniqueness {
        IndexUniqueness::No => index,
        IndexUniqueness::Partition => index.unique_within_partition(),
        IndexUniqueness::Table => index.unique_within_table(),
    })
}

/// How the parts of the templates are written, as part of the definition.
fn encodings(schema: &IndexSchema) -> String {
    let of = |part: &PartEncoding| match part.width {
        Some(width) => format!("{} {width}", part.name),
        None => part.name.to_owned(),
    };
    let parts: Vec<_> = schema.parts.iter().map(of).collect();
    format!(" as {}", parts.join(", "))
}

/// By what the entities are told from others in the table, as part of the definition: those of another type have no
/// entry in the index, although it may be declared in the same words.
fn told(schema: &Schema) -> String {
    match schema.discriminator {
        Discriminator::None => "every entity".to_owned(),
        Discriminator::Property(name) => format!("{name} {:?}", schema.type_name),
        Discriminator::RowPrefix(text) => format!("rows {text:?}"),
        Discriminator::PartitionPrefix(text) => format!("partitions {text:?}"),
    }
}

/// The key of an entity's entry; rows of other types have none.
fn key_of<T: IndexedEntity>(n: usize, entity: &Entity) -> Result<Option<Key>> {
    if T::type_filter().is_some_and(|filter| !filter.matches(entity)) {
        return Ok(None);
    }
    T::from_entity(entity.clone())?.index_key(n)
}

fn shape(shape: IndexShape) -> Shape {
    match shape {
        IndexShape::Row => Shape::Row,
        IndexShape::List { bytes: None, overflow: ListOverflow::Entities } => Shape::LIST,
        IndexShape::List { bytes, overflow } => Shape::List {
            bytes: bytes.unwrap_or(Shape::LIST_BYTES),
            overflow: match overflow {
                ListOverflow::Entities => Overflow::Entities,
                ListOverflow::Blob => Overflow::Blob,
            },
        },
        IndexShape::Blob => Shape::Blob,
    }
}

/// A projection checks the schema version, so an entry with fields holds it.
fn payload(schema: &Schema, payload: IndexPayload) -> Payload {
    match payload {
        IndexPayload::Full => Payload::Full,
        IndexPayload::Fields(names) => {
            let version = (schema.version > 1).then_some(Schema::VERSION_PROPERTY);
            Payload::Fields(names.iter().copied().chain(version).map(str::to_owned).collect())
        }
        IndexPayload::Reference => Payload::Reference,
    }
}
