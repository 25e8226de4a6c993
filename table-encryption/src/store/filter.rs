//! Refuses filters that would compare ciphertext.

use table_core::query::Filter;
use table_core::store::{Error, Result};

use super::decrypt::{Decryptor, StoredForm, is_system};

/// The properties that a filter compares, except for keys and Timestamp.
pub(crate) type Compared<'a> = Vec<&'a str>;

/// Returns the properties that a filter compares.
pub(super) fn compared(filter: Option<&Filter>) -> Compared<'_> {
    let mut names = Vec::new();
    if let Some(filter) = filter {
        filter.for_each_property(&mut |name| {
            if !is_system(name) {
                names.push(name);
            }
        });
    }
    names
}

impl Decryptor<'_> {
    /// Refuses a filter on a property that is known to be encrypted or is not listed as comparable.
    pub(super) fn check_filter(&self) -> Result<()> {
        if self.compared.is_empty() {
            return Ok(());
        }
        let rules = &self.shared.rules;
        let names = rules.names(&self.table_id);
        let encrypted = self.compared.iter().find(|name| names.contains(name));
        if let Some(name) = encrypted {
            return Err(self.compares_encrypted(name));
        }
        match self
            .compared
            .iter()
            .find(|name| !rules.may_be_compared(&self.table_id, name))
        {
            None => Ok(()),
            Some(name) => Err(Error::invalid_argument(format!(
                "the filter compares '{name}' of the table '{}', which `filter_only_by` does not list: it may be \
                 encrypted",
                self.table
            ))),
        }
    }

    /// Refuses the result of a filter on a property that this entity has encrypted.
    pub(super) fn check_stored(&self, stored: Option<&StoredForm>) -> Result<()> {
        let Some(StoredForm::V2(header)) = stored else {
            return Ok(());
        };
        let encrypted = self
            .compared
            .iter()
            .find(|name| header.find(name).is_some());
        encrypted.map_or(Ok(()), |name| Err(self.compares_encrypted(name)))
    }

    fn compares_encrypted(&self, name: &str) -> Error {
        Error::invalid_argument(format!(
            "the filter compares the encrypted property '{name}' of the table '{}', which the service cannot do: \
             look it up through a blind index",
            self.table
        ))
    }
}
