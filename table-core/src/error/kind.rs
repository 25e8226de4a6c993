use std::fmt;
use std::time::Duration;

use super::Error;
use crate::access_path::AccessPath;

/// Why an operation failed. All backends use the same kinds. `docs/errors.md` says what a program does after each.
///
/// ```
/// use table_core::store::{Error, ErrorKind, Outcome};
///
/// fn next_step(error: &Error) -> &'static str {
///     match (error.outcome(), error.root().kind()) {
///         (Outcome::Ambiguous, _) => "read the entity: it may have been written",
///         (Outcome::Applied, _) => "the entity is written, a later step is not",
///         (Outcome::NotApplied, ErrorKind::IndexNotReady(_)) => "query without the index",
///         (Outcome::NotApplied, ErrorKind::InvalidArgument(_) | ErrorKind::InvalidKey { .. }) => {
///             "tell the user"
///         }
///         (Outcome::NotApplied, _) if error.is_conflict() => "read again and repeat the write",
///         (Outcome::NotApplied, _) if error.is_transient() => "repeat later",
///         (Outcome::NotApplied, _) => "report it",
///     }
/// }
/// let taken = Error::entity_already_exists("Employees", "('Sales', '1')");
/// assert_eq!(next_step(&taken), "read again and repeat the write");
/// ```
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
    /// (<https://learn.microsoft.com/rest/api/storageservices/delete-table#remarks>). The error is transient, but a
    /// default [`RetryPolicy`](crate::adapter::RetryPolicy) gives up after a few seconds.
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
    #[error("{quantity}: at most {allowed} allowed, got {actual}")]
    LimitExceeded {
        /// Which limit.
        kind: LimitKind,
        /// The quantity with its unit, such as `bytes in the RowKey`.
        quantity: String,
        /// The limit.
        allowed: usize,
        /// The actual number.
        actual: usize,
    },
    /// A key that the service does not allow.
    #[error("invalid {key_name} {text:?}: {reason}")]
    InvalidKey {
        /// `PartitionKey` or `RowKey`.
        key_name: &'static str,
        /// The text.
        text: String,
        /// The rule that the key breaks, and how to mend the key.
        reason: String,
    },
    /// A name of a table or property that the service does not allow.
    #[error("invalid {kind} {text:?}: {reason}")]
    InvalidName {
        /// The kind of name, such as `table name`.
        kind: &'static str,
        /// The text.
        text: String,
        /// The rule that the name breaks.
        reason: String,
    },
    /// A property value that the service does not allow.
    #[error("invalid value of the property '{property}': {reason}")]
    InvalidValue {
        /// The property.
        property: String,
        /// The rule that the value breaks.
        reason: String,
    },
    /// A filter that cannot be parsed or evaluated.
    #[error("invalid filter at character {position}: {reason}")]
    InvalidFilter {
        /// The position of the error in characters, from 0.
        position: usize,
        /// The error, and the expected text.
        reason: String,
    },
    /// An argument, option or setting that is never allowed, whatever is stored: pass another one.
    #[error("{0}")]
    InvalidArgument(String),
    /// A call that its handle, query or group transaction does not allow: the program is to be changed, to the call that the message names.
    #[error("{0}")]
    Misuse(String),
    /// The declaration of a type or an index contradicts itself, another declaration or a rule of the store: change the declaration.
    #[error("{0}")]
    InvalidDeclaration(String),
    /// The table's manifest says what this program, or this handle, does not know or do, for example an index, a layout, encryption or a later
    /// version: write with the handle or the program that the message names. Reads go on.
    #[error("{0}")]
    ManifestMismatch(String),
    /// An index cannot be used yet, or no more: it is not declared, not built, or not in force. Do what the message says and call again; until
    /// then, a query without the index finds the entities.
    #[error("{0}")]
    IndexNotReady(String),
    /// What is stored, or what another process does, does not allow the call now: change it, or give the option, as the message says, and call
    /// again.
    #[error("{0}")]
    WrongState(String),
    /// Code of the application has failed, such as the closure of an update, a handler or an input: [`Error::application`] makes the error.
    #[error("{0}")]
    Application(String),
    /// The remote service refused the request for a reason that has no kind here: [`Error::answer`] has its status and code.
    #[error("the request was refused: {0}")]
    Rejected(String),
    /// A continuation token or cursor of another query or another store, or text that is neither: start without it.
    #[error("invalid continuation token: {0}")]
    InvalidContinuation(String),
    /// Another entity has the value in a unique index. The text does not name that entity: [`Error::owner`] does.
    #[error(
        "the value at {entry} of the unique index '{index}' belongs to another entity; it was not given to {wanted_by}"
    )]
    UniqueViolation {
        /// The index.
        index: String,
        /// The entry's key.
        entry: String,
        /// The key of the entity that has the value.
        owner: String,
        /// The key of the entity that was to get the value. If the outcome is [`Applied`](super::Outcome::Applied), the
        /// entity was written with the value, but the index does not contain its entry.
        wanted_by: String,
    },
    /// A unique index cannot be built, because several entities have the same value.
    #[error(
        "the unique index '{index}' cannot be built, because entities have the same value: {}; change or delete one entity of each pair and build again, or drop the index",
        Listed(duplicates)
    )]
    DuplicateValues {
        /// The index.
        index: String,
        /// Every duplicate value, in the order in which the build found them.
        duplicates: Vec<Duplicate>,
    },
    /// Another entity has an entry with the same key in an index that is not unique. The text does not name that entity: [`Error::owner`] does.
    #[error(
        "the entry {entry} of the index '{index}' belongs to another entity: add the entity's key to the key template of the index, or declare the index unique"
    )]
    KeyCollision {
        /// The index.
        index: String,
        /// The entry's key.
        entry: String,
        /// The key of the entity that has the entry.
        owner: String,
    },
    /// An operation of a group transaction failed. No operation was applied.
    #[error("operation {} of the group transaction failed, nothing was applied: {error}", index + 1)]
    TransactionFailed {
        /// The index of the operation, from 0. The message counts from 1.
        index: usize,
        /// The error of the operation.
        error: Box<Error>,
    },
    /// The service is busy.
    #[error("the service is busy{}", RetryAfter(*retry_after))]
    Throttled {
        /// How long to wait, if the service said so.
        retry_after: Option<Duration>,
    },
    /// The service did not answer within the allowed time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// The allowed time.
        after: Duration,
    },
    /// A stored entity does not fit the Rust type.
    #[error(transparent)]
    Decode(DecodeError),
    /// An encrypted property could not be decrypted, or a marked property could not be encrypted.
    #[error("encryption: {0}")]
    Encryption(String),
    /// The credential was not accepted.
    #[error("the credential was not accepted: {0}")]
    Unauthorized(String),
    /// The credential does not allow the operation.
    #[error("not allowed: {0}")]
    Forbidden(String),
    /// The service or store does not have a feature.
    #[error("{service} does not support {feature}")]
    Unsupported {
        /// The service.
        service: &'static str,
        /// The feature, and what to do instead.
        feature: String,
    },
    /// A guard refused a costly query.
    #[error("the scan guard refused a {path} of '{table}': {advice}")]
    ScanRefused {
        /// The access path.
        path: AccessPath,
        /// The table.
        table: String,
        /// How to make the query cheaper.
        advice: String,
    },
    /// The connection failed, or a request or answer could not be transmitted.
    #[error("transport: {0}")]
    Transport(String),
    /// The local file or stored data is damaged, comes from another program, or cannot be used.
    #[error("storage: {0}")]
    Storage(String),
    /// The disk is full, or a quota is used up. The write was not applied, unless the error's
    /// [`Outcome`](super::Outcome) says otherwise.
    #[error("the storage is full: {0}")]
    StorageFull(String),
    /// The service's answer breaks its protocol.
    #[error("unexpected answer of the service: {0}")]
    Service(String),
}

/// A limit, independent of its number: services have equal numbers for different limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// The length of a PartitionKey or RowKey.
    KeyLength,
    /// The number of properties of an entity.
    PropertyCount,
    /// The length of a property's name.
    PropertyNameLength,
    /// The length of a property's value.
    PropertyValueLength,
    /// The size of an entity.
    EntitySize,
    /// The number of operations in a group transaction.
    GroupOperations,
    /// The size of a request, such as that of a group transaction.
    RequestSize,
    /// The comparisons or the nesting of a filter.
    FilterSize,
    /// Any other limit, for example of a message, a stored access policy or a pattern of this library.
    Other,
}

/// Two entities with the same value of a unique index.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Duplicate {
    /// The key of the index entry that both entities need.
    pub entry: String,
    /// The key of the entity that has the entry.
    pub owner: String,
    /// The key of the other entity with the value.
    pub other: String,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} and of {}", self.entry, self.owner, self.other)
    }
}

/// Shows the first 20 duplicates and the number of the others. [`ErrorKind::DuplicateValues`] has all of them.
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

/// A property of a stored entity that does not fit the Rust type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {entity} {key}: property '{property}': expected {expected}, found {found}")]
pub struct DecodeError {
    /// The Rust type.
    pub entity: &'static str,
    /// The entity's key.
    pub key: String,
    /// The property.
    pub property: String,
    /// The EDM type or value that the Rust type needs.
    pub expected: String,
    /// The stored EDM type or a description. Marked values are not shown.
    pub found: String,
}

struct RetryAfter(Option<Duration>);

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |after| write!(f, "; retry after {after:?}"))
    }
}
