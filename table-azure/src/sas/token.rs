use std::fmt;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// A signed query string. Anyone who has it has its permissions, so [`Debug`](fmt::Debug) does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SasToken(String);

impl SasToken {
    /// Builds the query string from names and values, without empty values.
    pub(super) fn new(fields: &[(&str, &str)]) -> Self {
        let given = fields.iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<_> = given
            // Encodes all but letters and digits. A `+` in a signature would otherwise be read as a space.
            .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
            .collect();
        Self(pairs.join("&"))
    }

    /// Returns the query string, without a leading `?`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the endpoint with the signature, as [`with_sas`](crate::AzureTableStore::with_sas) expects it.
    pub fn url(&self, endpoint: &str) -> String {
        format!("{}/?{}", endpoint.trim_end_matches('/'), self.0)
    }
}

impl fmt::Debug for SasToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SasToken")
    }
}
