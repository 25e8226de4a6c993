use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The table in which `table-server` keeps its settings, among them stored access policies. It is in the same store as the
/// tables of clients, so everything that takes a table's name from data must refuse it.
pub const SERVER_TABLE: &str = "TableServerSettings";

/// A table name: 3 to 63 ASCII letters and digits, starting with a letter, and not `tables`.
///
/// Azure Table Storage and the local stores keep the case and ignore it in comparisons; Cosmos DB
/// distinguishes case. See [`ServiceProfile::case_sensitive_tables`](crate::store::ServiceProfile).
/// <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#table-names>
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName(Cow<'static, str>);

impl TableName {
    /// Validates the name.
    ///
    /// # Errors
    /// Fails if the name breaks a rule above.
    pub fn new(name: impl Into<Box<str>>) -> Result<Self> {
        let name = name.into();
        match problem(&name) {
            None => Ok(Self(Cow::Owned(name.into_string()))),
            Some(reason) => Err(Error::invalid_name("table name", &name, reason)),
        }
    }

    /// Creates a name that is known at compile time.
    ///
    /// # Panics
    /// Panics if the name breaks a rule above; in a constant, at compile time.
    pub const fn from_static(name: &'static str) -> Self {
        assert!(
            problem(name).is_none(),
            "a table name must have 3 to 63 ASCII letters and digits, start with a letter, and not be `tables`"
        );
        Self(Cow::Borrowed(name))
    }

    /// Returns the name in its original case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is [`SERVER_TABLE`], in any case: no client and no index definition may use it.
    pub fn is_server_table(&self) -> bool {
        self.0.eq_ignore_ascii_case(SERVER_TABLE)
    }

    /// Returns the name in lower case: the identity of the table if case is ignored, and its form in a SAS.
    pub fn to_lowercase(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

/// Returns the rule that the name breaks, if it breaks one. Loops in place of iterators, so that constants can call it.
const fn problem(name: &str) -> Option<&'static str> {
    let bytes = name.as_bytes();
    if bytes.len() < 3 || bytes.len() > 63 {
        return Some("it must have 3 to 63 characters");
    }
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_alphanumeric() {
            return Some("only ASCII letters and digits are allowed");
        }
        at += 1;
    }
    if bytes[0].is_ascii_digit() {
        return Some("the first character must be a letter");
    }
    if name.eq_ignore_ascii_case("tables") {
        Some("the name `tables` is reserved")
    } else {
        None
    }
}

impl FromStr for TableName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<&str> for TableName {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl AsRef<str> for TableName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
