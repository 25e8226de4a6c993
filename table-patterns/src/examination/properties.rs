//! The types and the encryption of properties, and the versions of entities.

use std::collections::BTreeMap;

use table_core::manifest::{Manifest, StoredType};
use table_core::model::{ENCRYPTION_HEADERS, EdmType, Entity, Key, ValueRef};
use table_core::typed::Schema;

use super::report::{Findings, Problem, TypeRows};
use super::short;

/// The properties that are counted, over all types.
const COUNTED: usize = 10_000;
/// Instead of a type: rows that do not show the type of their entity.
const FURTHER: &str = "wide entities";
/// The types and versions that are counted.
const TYPES: usize = 1000;

/// The values of a property in the entities of one type.
#[derive(Default)]
struct Values {
    /// The number of plaintext values by EDM type, and the first key with one.
    plain: BTreeMap<EdmType, (u64, Option<Key>)>,
    encrypted: u64,
}

/// Counts values by entity type and property.
pub(super) struct Properties<'a> {
    types: &'a [StoredType],
    /// By type, and by property.
    values: BTreeMap<String, BTreeMap<String, Values>>,
    counted: usize,
    rows: BTreeMap<String, TypeRows>,
}

impl<'a> Properties<'a> {
    pub(super) fn new(manifest: &'a Manifest) -> Self {
        Self { types: &manifest.types, values: BTreeMap::new(), counted: 0, rows: BTreeMap::new() }
    }

    /// Adds an entity. `encrypted` are the names in its header, if the store did not decrypt it.
    pub(super) fn add(&mut self, row: &Entity, encrypted: &[String]) {
        let stored =
            self.types.iter().find(|stored| stored.entity.as_ref().is_some_and(|entity| entity.admits(row)));
        let type_name = match (stored, row.get(Schema::TYPE_PROPERTY)) {
            (Some(stored), _) => stored.name(),
            // By default a type of this library is in this property, with a manifest or without.
            (None, Some(ValueRef::String(name))) => name,
            (None, _) => "",
        };
        self.add_version(type_name, row);
        self.add_values(type_name, row, encrypted);
    }

    /// Adds a row of an entity that has several rows: it has neither the type nor the version of the entity.
    pub(super) fn add_further(&mut self, row: &Entity, encrypted: &[String]) {
        self.add_values(FURTHER, row, encrypted);
    }

    fn add_version(&mut self, of: &str, row: &Entity) {
        if self.rows.contains_key(of) || self.rows.len() < TYPES {
            let rows = self.rows.entry(of.to_owned()).or_default();
            rows.rows += 1;
            let version = match row.get(Schema::VERSION_PROPERTY) {
                Some(ValueRef::Int32(version)) => version,
                _ => 1,
            };
            if rows.versions.contains_key(&version) || rows.versions.len() < TYPES {
                *rows.versions.entry(version).or_default() += 1;
            }
        }
    }

    fn add_values(&mut self, of: &str, row: &Entity, encrypted: &[String]) {
        let is_ciphertext = row.is_ciphertext();
        if !self.values.contains_key(of) {
            self.values.insert(of.to_owned(), BTreeMap::new());
        }
        let Some(values) = self.values.get_mut(of) else { return };
        for property in row.properties().iter() {
            let (name, edm_type) = (property.name(), property.value().edm_type());
            if ENCRYPTION_HEADERS.contains(&name) {
                continue;
            }
            if values.get(name).is_none() {
                // Programs may make names of properties from data. Names that are known are still counted.
                if self.counted >= COUNTED {
                    continue;
                }
                self.counted += 1;
                values.insert(name.to_owned(), Values::default());
            }
            let Some(values) = values.get_mut(name) else { continue };
            let is_named = encrypted.iter().any(|other| other == name);
            // Without the names in the header, a Binary of an encrypted entity may be ciphertext.
            let is_hidden = is_ciphertext && encrypted.is_empty() && edm_type == EdmType::Binary;
            if property.is_encrypted() || is_named || is_hidden {
                values.encrypted += 1;
            } else {
                let (count, first) = values.plain.entry(edm_type).or_default();
                *count += 1;
                first.get_or_insert_with(|| row.key().clone());
            }
        }
    }

    pub(super) fn end(self, manifest: &Manifest, findings: &mut Findings) -> BTreeMap<String, TypeRows> {
        let values = self.values.iter();
        for (of, (name, values)) in
            values.flat_map(|(of, values)| values.iter().map(move |of_name| (of, of_name)))
        {
            let whose = if of.is_empty() { name.clone() } else { format!("{name} of {of}") };
            let declares = |stored: &StoredType| {
                (of == FURTHER || stored.name() == of) && stored.encrypted.contains(name)
            };
            let plain: u64 = values.plain.values().map(|(count, _)| count).sum();
            let examples = values.plain.values().filter_map(|(_, first)| first.as_ref());
            if plain > 0 && (values.encrypted > 0 || manifest.types.iter().any(declares)) {
                findings.add_with(Problem::Plaintext, &whose, plain, examples.clone());
            }
            // Rows of wide entities mix the properties of several types, so there it says nothing.
            if values.plain.len() > 1 && of != FURTHER {
                let most = values.plain.values().map(|(count, _)| *count).max().unwrap_or_default();
                let counts: Vec<_> = values
                    .plain
                    .iter()
                    .map(|(edm_type, (count, _))| format!("{} in {count} rows", short(*edm_type)))
                    .collect();
                let what = format!("{whose}: {}", counts.join(", "));
                findings.add_with(Problem::MixedTypes, &what, plain - most, examples);
            }
        }
        for (of, rows) in &self.rows {
            let declared =
                manifest.types.iter().filter(|stored| stored.name() == of).map(|stored| stored.version);
            let latest = declared.chain(rows.versions.keys().copied()).max().unwrap_or(1);
            for (version, count) in rows.versions.iter().filter(|(version, _)| **version < latest) {
                let whose = if of.is_empty() { "entities without a type" } else { of };
                let what = format!("{whose}: version {version}, and the latest is {latest}");
                findings.add_many(Problem::OldVersion, &what, *count);
            }
        }
        self.rows
    }
}
