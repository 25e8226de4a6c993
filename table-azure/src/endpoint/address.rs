//! URLs of requests.

use azure_core::http::Url;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use table_core::model::{Key, TableName};

/// Every character outside RFC 3986's unreserved set is encoded, so that all intermediaries read the URL
/// alike.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A request URL under construction: first the path, then the query. The server part was parsed once, with
/// the endpoint.
pub(crate) struct Address<'a> {
    url: Url,
    query: String,
    sas: Option<&'a str>,
}

impl<'a> Address<'a> {
    pub(super) fn new(base: &Url, path: &str, sas: Option<&'a str>) -> Self {
        let mut url = base.clone();
        url.set_path(&[base.path(), path].concat());
        Self {
            url,
            query: String::new(),
            sas,
        }
    }

    /// Adds a query parameter and percent-encodes its value.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.push_separator();
        self.query.push_str(name);
        self.query.push('=');
        self.query.extend(utf8_percent_encode(value, ENCODED));
        self
    }

    /// Adds a query parameter if it has a value.
    pub(crate) fn with_optional(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn push_separator(&mut self) {
        if !self.query.is_empty() {
            self.query.push('&');
        }
    }

    /// Returns the URL with the SAS at the end of its query.
    pub(crate) fn into_url(mut self) -> Url {
        if let Some(sas) = self.sas {
            self.push_separator();
            // The SAS is encoded already. A second encoding would change the signature.
            self.query.push_str(sas);
        }
        if !self.query.is_empty() {
            self.url.set_query(Some(&self.query));
        }
        self.url
    }
}

/// Returns `Table(PartitionKey='…',RowKey='…')`, with quotes doubled and all other reserved characters
/// encoded.
pub(crate) fn entity_path(table: &TableName, key: &Key) -> String {
    let mut path = String::with_capacity(64 + key.partition().len() + key.row().len());
    path.push_str(table.as_str());
    path.push_str("(PartitionKey='");
    push_literal(&mut path, key.partition());
    path.push_str("',RowKey='");
    push_literal(&mut path, key.row());
    path.push_str("')");
    path
}

/// Appends the content of an OData string literal.
fn push_literal(path: &mut String, text: &str) {
    for (n, part) in text.split('\'').enumerate() {
        if n > 0 {
            // A quote in a literal is doubled, as in OData, and then encoded.
            path.push_str("%27%27");
        }
        path.extend(utf8_percent_encode(part, ENCODED));
    }
}
