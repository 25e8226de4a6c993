use table_core::model::{Key, TableName};
use table_core::store::{Error, ErrorKind};

use crate::store::{Failure, is_service_error};

/// Why something encrypted cannot be read. Nothing tells the reasons of a refusal apart.
#[derive(Clone, Debug)]
pub(crate) enum Unreadable {
    /// The data is not what was written under a key that is here.
    Refused,
    /// The key service could not be used: nothing is said about the data.
    Unavailable(Error),
}

impl Unreadable {
    /// The one error that readers see for data.
    pub(crate) fn of_entity(self, table: &TableName, key: &Key) -> Error {
        match self {
            Self::Refused => ErrorKind::Encryption(format!(
                "{key} of the table '{table}' cannot be decrypted: it was changed by one without the key, or \
                 its key is not among those of this store"
            ))
            .into(),
            Self::Unavailable(error) => error,
        }
    }

    /// The same, and whether others can be read.
    pub(crate) fn failure(self, table: &TableName, key: &Key) -> Failure {
        match self {
            Self::Unavailable(error) if is_service_error(&error) => Failure::OfService(error),
            other => Failure::OfEntity(other.of_entity(table, key)),
        }
    }

    /// The same for a blob.
    pub(crate) fn of_blob(self, name: &str) -> Error {
        match self {
            Self::Refused => ErrorKind::Encryption(format!(
                "the blob {name:?} cannot be decrypted: it is not whole, was changed by one without the key, \
                 or its key is not among those given"
            ))
            .into(),
            Self::Unavailable(error) => error,
        }
    }
}
