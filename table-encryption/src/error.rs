use table_core::model::{Key, TableName};
use table_core::store::{Error, ErrorKind};

/// Why encrypted data cannot be read. The error never reveals the reason of a refusal.
#[derive(Clone, Debug)]
pub(crate) enum Unreadable {
    /// The data was not written with an available key, or was changed.
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

/// Why an entity cannot be read.
pub(crate) enum Failure {
    /// A problem of this entity; other entities can be read.
    OfEntity(Error),
    /// The key service cannot be used now; other entities cannot be read either.
    OfService(Error),
}

impl Failure {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::OfEntity(error) | Self::OfService(error) => error,
        }
    }
}

/// Whether an error concerns the key service and not one key: it is transient, and other keys would fail too.
pub(crate) fn is_service_error(error: &Error) -> bool {
    error.is_transient() || error.is_ambiguous()
}
