use std::fmt;
use std::time::Duration;

use super::Error;
use crate::access_path::AccessPath;

/// Why an operation failed: the meaning, whatever the backend.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The table does not exist.
    #[error("the table '{table}' does not exist; create it first")]
    TableNotFound {
        /// Its name.
        table: String,
    },
    /// The table exists already.
    #[error("the table '{table}' exists already")]
    TableAlreadyExists {
        /// Its name.
        table: String,
    },
    /// The table was deleted and its name cannot be used yet: on Azure Table Storage for at least 40 seconds
    /// (<https://learn.microsoft.com/rest/api/storageservices/delete-table#remarks>). Transient, but for longer than
    /// the few seconds in which a default [`RetryPolicy`](crate::adapter::RetryPolicy) tries again.
    #[error(
        "the table '{table}' is being deleted; its name can be used again later, in Azure after 40 seconds or more"
    )]
    TableBeingDeleted {
        /// Its name.
        table: String,
    },
    /// The entity does not exist.
    #[error("there is no entity {key} in the table '{table}'")]
    EntityNotFound {
        /// The table.
        table: String,
        /// The key, as [`Key`](crate::model::Key) prints it.
        key: String,
    },
    /// The entity exists already.
    #[error("the entity {key} exists already in the table '{table}'")]
    EntityAlreadyExists {
        /// The table.
        table: String,
        /// The key.
        key: String,
    },
    /// The entity is not in the version that the condition names.
    #[error("the entity {key} in the table '{table}' was changed since it was read; read it again")]
    PreconditionFailed {
        /// The table.
        table: String,
        /// The key.
        key: String,
    },
    /// Something is larger than the service allows.
    #[error("{what}: at most {allowed} allowed, got {actual}")]
    LimitExceeded {
        /// What is too large, or too many.
        what: String,
        /// The limit.
        allowed: usize,
        /// The value.
        actual: usize,
    },
    /// A key that the service does not allow.
    #[error("invalid {which} {text:?}: {reason}")]
    InvalidKey {
        /// `PartitionKey` or `RowKey`.
        which: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A name of a table or property that the service does not allow.
    #[error("invalid {which} {text:?}: {reason}")]
    InvalidName {
        /// What kind of name.
        which: &'static str,
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A property value that the service does not allow.
    #[error("invalid value of the property '{property}': {reason}")]
    InvalidValue {
        /// The property.
        property: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A filter that cannot be parsed or evaluated.
    #[error("invalid filter at character {position}: {reason}")]
    InvalidFilter {
        /// The character, from 0, where it goes wrong.
        position: usize,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// A query, group or call that makes no sense.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// A continuation of another query, another store, or not one at all.
    #[error("invalid continuation: {0}")]
    InvalidContinuation(String),
    /// Another entity holds the value of a unique index.
    #[error("the unique index '{index}' holds {entry} for another entity, {owner}, and not for {wanted_by}")]
    UniqueViolation {
        /// The index.
        index: String,
        /// The entry's key.
        entry: String,
        /// The key of the entity that holds it.
        owner: String,
        /// The key of the entity that was to have it; that has the value all the same, if the outcome is that the
        /// operation was applied.
        wanted_by: String,
    },
    /// Entities share values of a unique index that is to be built.
    #[error(
        "the unique index '{index}' cannot be built, since entities share values of it: {}",
        Listed(duplicates)
    )]
    DuplicateValues {
        /// The index.
        index: String,
        /// Every entity whose value another has, in the order in which they were met.
        duplicates: Vec<Duplicate>,
    },
    /// Another entity has an entry with the same key in an index that is not unique.
    #[error(
        "the index '{index}' holds {entry} for another entity, {owner}: add the entity's key to the key of the index, or declare it unique"
    )]
    KeyCollision {
        /// The index.
        index: String,
        /// The entry's key.
        entry: String,
        /// The key of the entity that holds it.
        owner: String,
    },
    /// An operation of a group transaction failed; none was applied.
    #[error("operation {index} of the group transaction failed, nothing was applied: {error}")]
    TransactionFailed {
        /// The operation, from 0.
        index: usize,
        /// Its error.
        error: Box<Error>,
    },
    /// The service is busy.
    #[error("the service is busy{}", RetryAfter(*retry_after))]
    Throttled {
        /// How long to wait, if the service said so.
        retry_after: Option<Duration>,
    },
    /// No answer within the time allowed.
    #[error("no answer within {}", Seconds(*after))]
    Timeout {
        /// The time allowed.
        after: Duration,
    },
    /// A stored entity does not fit the type it is read as.
    #[error(transparent)]
    Decode(DecodeError),
    /// An encrypted property could not be read, or a marked one not be written.
    #[error("encryption: {0}")]
    Encryption(String),
    /// The credential was not accepted.
    #[error("the credential was not accepted: {0}")]
    Unauthorized(String),
    /// The credential does not allow this.
    #[error("not allowed: {0}")]
    Forbidden(String),
    /// The service or store does not offer this.
    #[error("{service} does not support {what}")]
    Unsupported {
        /// The service.
        service: &'static str,
        /// What was asked for, and what to do instead.
        what: String,
    },
    /// A guard refused a costly query.
    #[error("the scan guard refused a {path} of '{table}': {advice}")]
    ScanRefused {
        /// The access path.
        path: AccessPath,
        /// The table.
        table: String,
        /// A cheaper plan.
        advice: String,
    },
    /// The connection or the exchange failed.
    #[error("transport: {0}")]
    Transport(String),
    /// The local file or stored data is damaged, foreign or unusable.
    #[error("storage: {0}")]
    Storage(String),
    /// There is no room on the disk, or a quota is used up. What was to be written was not applied, unless the error's
    /// [`Outcome`](super::Outcome) says otherwise.
    #[error("no room: {0}")]
    StorageFull(String),
    /// The service answered something that is not in its protocol.
    #[error("the service answered: {0}")]
    Service(String),
}

/// An entity whose value of a unique index another entity has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The key of the entry that there can be only once.
    pub entry: String,
    /// The key of the entity that has it.
    pub owner: String,
    /// The key of the entity that has the same value.
    pub other: String,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} and of {}", self.entry, self.owner, self.other)
    }
}

/// The first 20, and how many more there are.
struct Listed<'a>(&'a [Duplicate]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        for (n, duplicate) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{duplicate}", if n == 0 { "" } else { "; " })?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// What did not fit when an entity was decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {entity} {key}: property '{property}': expected {expected}, found {found}")]
pub struct DecodeError {
    /// The Rust type that was read.
    pub entity: &'static str,
    /// The entity's key.
    pub key: String,
    /// The property.
    pub property: String,
    /// What the type expects.
    pub expected: String,
    /// What is stored: a type or a description, never a marked value.
    pub found: String,
}

struct RetryAfter(Option<Duration>);

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |after| write!(f, "; retry after {}", Seconds(after)))
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
