use std::borrow::Cow;
use std::fmt;

/// A value that does not fit a key part or a property of a typed entity.
///
/// The caller that knows the entity and the property converts it to an [`Error`](crate::Error).
///
/// ```
/// use table_core::model::ValueError;
/// let error = ValueError::new("at most 6 digits", 1_000_000);
/// assert_eq!(error.to_string(), "expected at most 6 digits, found 1000000");
/// ```
pub struct ValueError(Box<Mismatch>);

/// Boxed, so that results stay small in the success case.
struct Mismatch {
    expected: Cow<'static, str>,
    found: String,
}

impl ValueError {
    /// Creates an error from the expectation and the value found instead.
    pub fn new(expected: impl Into<Cow<'static, str>>, found: impl fmt::Display) -> Self {
        Self(Box::new(Mismatch { expected: expected.into(), found: found.to_string() }))
    }

    /// Returns the expectation.
    pub fn expected(&self) -> &str {
        &self.0.expected
    }

    /// Returns what was found: a type, a description or the value itself.
    pub fn found(&self) -> &str {
        &self.0.found
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.0.expected, self.0.found)
    }
}

impl fmt::Debug for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ValueError {}
