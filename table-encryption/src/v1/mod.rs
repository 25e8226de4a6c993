//! The legacy format of the first storage libraries: read if requested, written only by an explicit option,
//! never trusted.
//!
//! The format has no specification. The rules here are the rules of the libraries that write it:
//! <https://github.com/Azure/azure-storage-net/blob/master/Lib/ClassLibraryCommon/Table/TableEncryptionPolicy.cs>,
//! <https://github.com/Azure/azure-storage-java>, and the overview
//! <https://learn.microsoft.com/azure/storage/common/storage-client-side-encryption>.

mod cipher;
mod legacy;
mod metadata;
#[cfg(test)]
mod tests;

pub(crate) use legacy::Legacy;
pub use legacy::LegacyV1;
pub(crate) use metadata::Metadata;
use table_core::model::ENCRYPTION_HEADERS;

/// The two properties that hold the metadata.
pub(crate) const METADATA: [&str; 2] = [ENCRYPTION_HEADERS[1], ENCRYPTION_HEADERS[2]];

pub(crate) fn is_metadata(name: &str) -> bool {
    METADATA.contains(&name)
}
