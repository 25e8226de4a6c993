use std::fmt;
use std::str::FromStr;

use crate::store::{Error, Result};

/// A table's name: 3 to 63 ASCII letters and digits, the first a letter, and not `tables`.
///
/// Azure Table Storage and the local stores keep the case and ignore it when comparing, Cosmos DB
/// tells case apart; see [`ServiceProfile::case_sensitive_tables`](crate::store::ServiceProfile).
/// <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#table-names>
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName(Box<str>);

impl TableName {
    /// Checks and wraps the name.
    ///
    /// # Errors
    /// The name breaks a rule above.
    pub fn new(name: impl Into<Box<str>>) -> Result<Self> {
        let name = name.into();
        match problem(&name) {
            None => Ok(Self(name)),
            Some(reason) => Err(Error::invalid_name("table name", &name, reason)),
        }
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in lower case: the identity of the table where case is ignored, and in a SAS.
    pub fn to_lowercase(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

fn problem(name: &str) -> Option<&'static str> {
    match name.as_bytes() {
        bytes if !(3..=63).contains(&bytes.len()) => Some("it must have 3 to 63 characters"),
        bytes if !bytes.iter().all(u8::is_ascii_alphanumeric) => {
            Some("only ASCII letters and digits are allowed")
        }
        [first, ..] if first.is_ascii_digit() => Some("the first character must be a letter"),
        _ if name.eq_ignore_ascii_case("tables") => Some("the name `tables` is reserved"),
        _ => None,
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
