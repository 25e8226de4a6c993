//! The rules of tables: which properties are encrypted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{PoisonError, RwLock};

use table_core::model::{Entity, Key, Properties};
use table_core::store::EncryptedNames;

/// Maximum number of recorded names per table, so that a program with generated names does not exhaust
/// memory.
const MAX_RECORDED_NAMES: usize = 16_384;

/// The rules of tables, by table id: which properties are encrypted in addition to marked ones, and other
/// requirements.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    tables: BTreeMap<String, TableRules>,
    /// The encrypted names of tables: named by rules, declared by types, or recorded when read or written. No
    /// filter may compare them, and no entity may have them in plaintext.
    names: RwLock<BTreeMap<String, EncryptedNames>>,
}

/// The rules that the builder collects for one table.
#[derive(Default)]
pub(super) struct TableRules {
    pub(super) names: EncryptedNames,
    pub(super) required: bool,
    pub(super) accepts_plaintext: bool,
    /// The properties that filters may compare, if they are listed.
    comparable: Option<BTreeSet<String>>,
}

impl Rules {
    /// Converts rules by table name to rules by table id.
    pub(super) fn new(given: BTreeMap<String, TableRules>, id: impl Fn(&str) -> String) -> Self {
        let mut tables = BTreeMap::<String, TableRules>::new();
        for (table, rules) in given {
            tables.entry(id(&table)).or_default().add(rules);
        }
        let names = tables
            .iter()
            .map(|(table, rules)| (table.clone(), rules.names.clone()))
            .collect();
        Self {
            tables,
            names: RwLock::new(names),
        }
    }

    /// Whether entities of the table must have a header.
    pub(crate) fn requires(&self, table: &str) -> bool {
        self.tables.get(table).is_some_and(|rules| rules.required)
    }

    /// Whether plaintext may be read in properties that a rule names.
    pub(crate) fn accepts_plaintext(&self, table: &str) -> bool {
        self.tables
            .get(table)
            .is_some_and(|rules| rules.accepts_plaintext)
    }

    /// Returns the names known to be encrypted in the table.
    pub(crate) fn names(&self, table: &str) -> EncryptedNames {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.get(table).cloned().unwrap_or_default()
    }

    /// Marks the properties that the rules name.
    pub(crate) fn mark(&self, table: &str, key: &Key, properties: &mut Properties) {
        let Some(TableRules { names, .. }) = self.tables.get(table) else {
            return;
        };
        // Excludes recorded names: plaintext in them is refused, not encrypted.
        names.mark(key, properties);
    }

    /// Whether a stored entity has plaintext in a property that a rule names. `is_encrypted` recognizes
    /// ciphertext.
    pub(crate) fn finds_plaintext(
        &self,
        table: &str,
        entity: &Entity,
        is_encrypted: impl Fn(&str) -> bool,
    ) -> bool {
        let Some(TableRules { names, .. }) = self.tables.get(table) else {
            return false;
        };
        let mut found = entity.properties().iter().map(|p| p.name());
        found.any(|name| !is_encrypted(name) && names.rule_encrypts(entity.key(), name))
    }

    /// Records that a property is encrypted in the table. Beyond the maximum, further names are not recorded: plaintext in them
    /// is accepted, and filters on them are checked by the headers that come back.
    pub(crate) fn record(&self, table: &str, name: &str) {
        if self.is_recorded(table, name) {
            return;
        }
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let names = names.entry(table.to_owned()).or_default();
        if names.known_len() < MAX_RECORDED_NAMES {
            names.add_known(name);
        }
    }

    fn is_recorded(&self, table: &str, name: &str) -> bool {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.get(table).is_some_and(|names| names.has_known(name))
    }

    /// Removes the recorded names of a deleted table.
    pub(crate) fn clear_recorded(&self, table: &str) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = names.get_mut(table) {
            names.clear_known();
        }
    }

    /// Whether filters may compare the property, according to the listed names.
    pub(crate) fn may_be_compared(&self, table: &str, name: &str) -> bool {
        let listed = self
            .tables
            .get(table)
            .and_then(|rules| rules.comparable.as_ref());
        listed.is_none_or(|names| names.contains(name))
    }

    /// Returns a marked property that is listed as comparable.
    pub(crate) fn marked_comparable<'a>(
        &self,
        table: &str,
        properties: &'a Properties,
    ) -> Option<&'a str> {
        let listed = self.tables.get(table)?.comparable.as_ref()?;
        let mut marked = properties
            .iter()
            .filter(|p| p.is_encrypted())
            .map(|p| p.name());
        marked.find(|name| listed.contains(*name))
    }

    /// Returns a table and a property that is both encrypted by a rule and listed as comparable.
    pub(super) fn contradiction(&self) -> Option<(&str, &str)> {
        self.tables.iter().find_map(|(table, rules)| {
            let mut listed = rules.comparable.iter().flatten();
            listed
                .find(|name| rules.names.has_rule(name))
                .map(|name| (table.as_str(), name.as_str()))
        })
    }
}

impl TableRules {
    pub(super) fn filter_only_by(&mut self, names: BTreeSet<String>) {
        self.comparable.get_or_insert_default().extend(names);
    }

    /// Adds rules that were given for the same table under another case of its name.
    fn add(&mut self, other: Self) {
        self.names = std::mem::take(&mut self.names).with_all_of(&other.names);
        self.required |= other.required;
        self.accepts_plaintext |= other.accepts_plaintext;
        other
            .comparable
            .into_iter()
            .for_each(|names| self.filter_only_by(names));
    }
}

impl fmt::Debug for TableRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableRules")
            .field("names", &self.names)
            .field("required", &self.required)
            .field("accepts_plaintext", &self.accepts_plaintext)
            .field("comparable", &self.comparable)
            .finish()
    }
}
