//! Large values of entities: their blobs, the writes of entities with such values, and the reads. Everything here is driven by the schema of a
//! type; the handles add the types.

#[cfg(feature = "blobs")]
mod codec;
#[cfg(feature = "blobs")]
mod entity_writer;
#[cfg(feature = "blobs")]
mod group;
#[cfg(feature = "blobs")]
mod loader;
#[cfg(feature = "blobs")]
mod moves;
#[cfg(feature = "blobs")]
mod options;
#[cfg(feature = "blobs")]
mod set;
#[cfg(feature = "blobs")]
mod values;
#[cfg(not(feature = "blobs"))]
mod without;

#[cfg(feature = "blobs")]
pub use codec::{BlobCodec, BlobKey, PlainBlobs};
#[cfg(feature = "blobs")]
pub(crate) use entity_writer::EntityWriter;
#[cfg(feature = "blobs")]
pub(crate) use group::GroupBlobs;
#[cfg(feature = "blobs")]
pub(crate) use loader::{LargeLoader, open_writer};
#[cfg(feature = "blobs")]
pub use options::LargeOptions;
#[cfg(feature = "blobs")]
pub(crate) use values::{
    LargeValues, NewBlobs, not_encrypted, put_new_reference, remove_all, remove_blobs, value,
};
#[cfg(not(feature = "blobs"))]
pub(crate) use without::{EntityWriter, GroupBlobs};
