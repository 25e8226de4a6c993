//! The stored data: the eight EDM types, keys, properties, entities and their ETags.

mod chunk;
mod entity;
mod etag;
mod key;
pub mod key_order;
mod key_part;
mod properties;
pub(crate) mod property;
mod property_dictionary;
mod row_kind;
mod serialize;
mod shards;
mod system;
mod table_name;
#[cfg(test)]
mod tests;
mod ticks;
mod value;

pub use chunk::PageEntities;
pub(crate) use chunk::{PageBuilder, Span, SystemProperties, Texts};
pub use entity::Entity;
pub use etag::{ETag, IfMatch};
pub use key::{Key, PartitionKey, RowKey};
#[doc(hidden)]
pub use key_part::PartFormat;
pub use key_part::{
    Hour, KeyBuilder, KeyParser, KeyPart, KeyPartType, KeyText, KeyWriter, Reverse, ReverseKeyPart,
    TextKeyPart,
};
#[doc(hidden)]
pub use properties::PackedProperty;
pub use properties::{Properties, PropertiesIter, PropertyRef};
pub(crate) use properties::{find, split_value, tag};
pub use property::{Property, PropertySink, Text};
pub(crate) use property_dictionary::split_row_value;
#[doc(hidden)]
pub use property_dictionary::{PackBuffer, PropertyDictionary};
pub use row_kind::RowKind;
pub(crate) use serialize::{as_text, names as serde_names};
pub use shards::Shards;
#[doc(hidden)]
pub use system::{
    ENCRYPTION_HEADERS, FEED_COUNTER, INDEX_NAME, INDEX_TABLE, entry_id, split_entry_id,
};
pub use system::{MANIFEST_PARTITION, SYSTEM_PREFIX, WRITE_ID_PROPERTY};
pub use table_name::{SERVER_TABLE, TableName};
pub(crate) use ticks::PER_DAY as TICKS_PER_DAY;
pub use ticks::Ticks;
pub use value::{EdmType, EdmValue, ValueError, ValueRef};
