use std::convert::Infallible;
use std::fmt;

use super::{DecodeError, Error, ErrorKind};

/// Constructors for backends and adapters.
impl Error {
    /// Creates an [`ErrorKind::LimitExceeded`].
    pub fn limit(what: impl Into<String>, allowed: usize, actual: usize) -> Self {
        Self::new(ErrorKind::LimitExceeded { what: what.into(), allowed, actual })
    }

    /// Creates an [`ErrorKind::InvalidKey`].
    pub fn invalid_key(which: &'static str, text: &str, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidKey { which, text: text.to_owned(), reason: reason.into() })
    }

    /// Creates an [`ErrorKind::InvalidName`].
    pub fn invalid_name(which: &'static str, text: &str, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidName { which, text: text.to_owned(), reason: reason.into() })
    }

    /// Creates an [`ErrorKind::InvalidValue`].
    pub fn invalid_value(property: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidValue { property: property.into(), reason: reason.into() })
    }

    /// Creates an [`ErrorKind::InvalidFilter`].
    pub fn invalid_filter(position: usize, reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidFilter { position, reason: reason.into() })
    }

    /// Creates an [`ErrorKind::InvalidRequest`].
    pub fn invalid_request(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidRequest(reason.into()))
    }

    /// Creates an [`ErrorKind::InvalidRequest`] about a group transaction.
    pub fn invalid_group(reason: impl Into<String>) -> Self {
        Self::invalid_request(reason)
    }

    /// Creates an [`ErrorKind::TransactionFailed`] with the outcome of `error`. `index` counts from 0.
    pub fn in_transaction(index: usize, error: Self) -> Self {
        let outcome = error.outcome();
        Self::new(ErrorKind::TransactionFailed { index, error: Box::new(error) }).with_outcome(outcome)
    }

    /// Creates an [`ErrorKind::Decode`].
    pub fn decode(
        entity: &'static str,
        key: impl fmt::Display,
        property: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::Decode(DecodeError {
            entity,
            key: key.to_string(),
            property: property.into(),
            expected: expected.into(),
            found: found.into(),
        }))
    }

    /// Creates an [`ErrorKind::Storage`] for damaged stored bytes.
    pub fn corrupt(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Storage(what.into()))
    }

    /// Creates an [`ErrorKind::Unsupported`].
    pub fn unsupported(service: &'static str, what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported { service, what: what.into() })
    }
}

/// Lets generic code use conversions that cannot fail.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}
