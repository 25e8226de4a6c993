use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use table_core::model::{Entity, Key, Properties, TableName};

/// Decides for a partition, a row and a property whether it is encrypted.
pub(super) type Resolver = Arc<dyn Fn(&str, &str, &str) -> bool + Send + Sync>;

/// Names remembered for a table, so that a program that makes names up does not fill the memory.
const REMEMBERED: usize = 16_384;

/// What is encrypted beside what is marked, and what else holds for a table. Tables by their id.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    tables: BTreeMap<String, TableRules>,
    /// Properties met encrypted or declared to be, which no filter may compare and no write may have in plaintext.
    met: RwLock<BTreeMap<String, BTreeSet<Box<str>>>>,
}

#[derive(Default)]
pub(super) struct TableRules {
    encrypted: Vec<(BTreeSet<String>, Option<Resolver>)>,
    pub(super) required: bool,
    pub(super) accepts_plaintext: bool,
    /// The properties that filters may compare, if they are listed.
    comparable: Option<BTreeSet<String>>,
}

impl Rules {
    pub(super) fn of_mut(&mut self, table: String) -> &mut TableRules {
        self.tables.entry(table).or_default()
    }

    /// The same rules with table names in lower case.
    pub(super) fn case_insensitive(self) -> Self {
        let mut lower = Self::default();
        for (table, rules) in self.tables {
            let merged = lower.of_mut(table.to_ascii_lowercase());
            merged.encrypted.extend(rules.encrypted);
            merged.required |= rules.required;
            merged.accepts_plaintext |= rules.accepts_plaintext;
            rules.comparable.into_iter().for_each(|names| merged.filter_only_by(names));
        }
        lower
    }

    /// Whether entities of the table must have a header.
    pub(crate) fn requires(&self, table: &str) -> bool {
        self.tables.get(table).is_some_and(|rules| rules.required)
    }

    /// Whether plaintext is read where a rule asks for encryption.
    pub(crate) fn accepts_plaintext(&self, table: &str) -> bool {
        self.tables.get(table).is_some_and(|rules| rules.accepts_plaintext)
    }

    /// Whether a rule encrypts the property in this row.
    fn encrypts(&self, table: &str, key: &Key, name: &str) -> bool {
        self.tables.get(table).is_some_and(|rules| {
            rules.encrypted.iter().any(|(names, resolver)| {
                names.contains(name) && resolver.as_ref().is_none_or(|r| r(key.partition(), key.row(), name))
            })
        })
    }

    /// Marks what the rules name; the first name that was not marked before.
    pub(crate) fn mark(&self, table: &str, key: &Key, properties: &mut Properties) -> Option<String> {
        if !self.tables.contains_key(table) {
            return None;
        }
        let unmarked = properties.iter().filter(|p| !p.is_encrypted());
        let found: Vec<_> = unmarked
            .filter(|p| self.encrypts(table, key, p.name()))
            .map(|p| (p.name().to_owned(), p.value().to_owned()))
            .collect();
        let first = found.first().map(|(name, _)| name.clone());
        for (name, value) in found {
            properties.set_encrypted(&name, value);
        }
        first
    }

    /// Whether a stored entity has plaintext where a rule asks for encryption; `is_encrypted` tells ciphertext.
    pub(crate) fn finds_plaintext(
        &self,
        table: &str,
        entity: &Entity,
        is_encrypted: impl Fn(&str) -> bool,
    ) -> bool {
        let mut names = entity.properties().iter().map(|p| p.name());
        names.any(|name| !is_encrypted(name) && self.encrypts(table, entity.key(), name))
    }

    /// Remembers a property that is encrypted in the table.
    pub(crate) fn remember(&self, table: &str, name: &str) {
        if self.has_met(table, name) {
            return;
        }
        let mut met = self.met.write().unwrap_or_else(PoisonError::into_inner);
        let names = met.entry(table.to_owned()).or_default();
        if names.len() < REMEMBERED {
            names.insert(name.into());
        }
    }

    fn has_met(&self, table: &str, name: &str) -> bool {
        let met = self.met.read().unwrap_or_else(PoisonError::into_inner);
        met.get(table).is_some_and(|names| names.contains(name))
    }

    /// Forgets what was met in a table that is no more.
    pub(crate) fn forget(&self, table: &str) {
        self.met.write().unwrap_or_else(PoisonError::into_inner).remove(table);
    }

    /// Whether the property may be encrypted in some row of the table.
    pub(crate) fn may_be_encrypted(&self, table: &str, name: &str) -> bool {
        self.names(table, name) || self.has_met(table, name)
    }

    /// Whether a rule names the property, for all rows or some.
    fn names(&self, table: &str, name: &str) -> bool {
        self.tables.get(table).is_some_and(|rules| rules.names(name))
    }

    /// Whether filters may compare the property, as far as the rules list those.
    pub(crate) fn may_be_compared(&self, table: &str, name: &str) -> bool {
        let listed = self.tables.get(table).and_then(|rules| rules.comparable.as_ref());
        listed.is_none_or(|names| names.contains(name))
    }

    /// A property in plaintext that was met encrypted in the table, where no rule tells the rows apart.
    pub(crate) fn uncovered<'a>(&self, table: &str, properties: &'a Properties) -> Option<&'a str> {
        let met = self.met.read().unwrap_or_else(PoisonError::into_inner);
        let met = met.get(table)?;
        let mut plain = properties.iter().filter(|p| !p.is_encrypted()).map(|p| p.name());
        plain.find(|name| met.contains(*name) && !self.names(table, name))
    }

    /// A property to encrypt that was declared to be comparable.
    pub(crate) fn covered<'a>(&self, table: &str, properties: &'a Properties) -> Option<&'a str> {
        let listed = self.tables.get(table)?.comparable.as_ref()?;
        let mut marked = properties.iter().filter(|p| p.is_encrypted()).map(|p| p.name());
        marked.find(|name| listed.contains(*name))
    }

    /// A table and a property that a rule encrypts and another declares to be comparable.
    pub(super) fn contradiction(&self) -> Option<(&str, &str)> {
        self.tables.iter().find_map(|(table, rules)| {
            let mut listed = rules.comparable.iter().flatten();
            listed.find(|name| rules.names(name)).map(|name| (table.as_str(), name.as_str()))
        })
    }
}

impl TableRules {
    pub(super) fn encrypt(&mut self, names: BTreeSet<String>, resolver: Option<Resolver>) {
        self.encrypted.push((names, resolver));
    }

    pub(super) fn filter_only_by(&mut self, names: BTreeSet<String>) {
        self.comparable.get_or_insert_default().extend(names);
    }

    fn names(&self, name: &str) -> bool {
        self.encrypted.iter().any(|(names, _)| names.contains(name))
    }
}

impl fmt::Debug for TableRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeSet<&String> = self.encrypted.iter().flat_map(|(names, _)| names).collect();
        f.debug_struct("TableRules")
            .field("encrypted", &names)
            .field("required", &self.required)
            .field("accepts_plaintext", &self.accepts_plaintext)
            .field("comparable", &self.comparable)
            .finish()
    }
}

/// The name under which rules are collected before the profile is known.
pub(super) fn as_given(table: &TableName) -> String {
    table.to_string()
}
