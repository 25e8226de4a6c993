use table_core::model::{Key, TableName};
use table_core::store::{Error, ErrorKind};

use crate::store::{Failure, is_service_error};

/// Why encrypted data cannot be read. The error never reveals the reason of a refusal.
#[derive(Clone, Debug)]
pub(crate) enum Unreadable {
    /// The data is not what was written with an available key.
    Refused,
    /// The key service could not be used. This says nothing about the data.
    Unavailable(Error),
}

impl Unreadable {
    /// Returns the one error that readers get for an entity.
    pub(crate) fn of_entity(self, table: &TableName, key: &Key) -> Error {
        match self {
            Self::Refused => ErrorKind::Encryption(format!(
                "{key} of the table '{table}' cannot be decrypted: it was changed without the key, or \
                 its key is not among those of this store"
            ))
            .into(),
            Self::Unavailable(error) => error,
        }
    }

    /// Returns the error, and whether other entities can be read.
    pub(crate) fn failure(self, table: &TableName, key: &Key) -> Failure {
        match self {
            Self::Unavailable(error) if is_service_error(&error) => Failure::OfService(error),
            other => Failure::OfEntity(other.of_entity(table, key)),
        }
    }

    /// Returns the error for a blob.
    pub(crate) fn of_blob(self, name: &str) -> Error {
        match self {
            Self::Refused => ErrorKind::Encryption(format!(
                "the blob {name:?} cannot be decrypted: it is incomplete, was changed without the key, \
                 or its key is not among those given"
            ))
            .into(),
            Self::Unavailable(error) => error,
        }
    }
}
