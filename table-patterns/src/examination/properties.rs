//! The types and the encryption of properties, and the versions of entities.

use std::collections::BTreeMap;

use table_core::manifest::{Manifest, StoredType};
use table_core::model::{ENCRYPTION_HEADERS, EdmType, Entity, Key, ValueRef};
use table_core::typed::Schema;

use super::report::{Findings, Problem, TypeRows};

/// The maximal number of properties that are counted, over all types.
const MAX_PROPERTIES: usize = 10_000;
/// The name in place of a type for the rows of wide entities, which do not show the type of their entity.
const WIDE_ROWS: &str = "wide entities";
/// The maximal number of types, and of versions of a type, that are counted.
const MAX_TYPES: usize = 1000;

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
        Self {
            types: &manifest.types,
            values: BTreeMap::new(),
            counted: 0,
            rows: BTreeMap::new(),
        }
    }

    /// Adds an entity. `encrypted` are the names in its header, if the store did not decrypt it.
    pub(super) fn add(&mut self, row: &Entity, encrypted: &[String]) {
        let stored = self.types.iter().find(|stored| {
            stored
                .entity
                .as_ref()
                .is_some_and(|entity| entity.admits(row))
        });
        let type_name = match (stored, row.get(Schema::TYPE_PROPERTY)) {
            (Some(stored), _) => stored.name(),
            // By default a type of this library is in this property, with a manifest or without.
            (None, Some(ValueRef::String(name))) => name,
            (None, _) => "",
        };
        self.add_version(type_name, row);
        self.add_values(type_name, row, encrypted);
    }

    /// Adds a row of a wide entity: it has neither the type nor the version of the entity.
    pub(super) fn add_wide_row(&mut self, row: &Entity, encrypted: &[String]) {
        self.add_values(WIDE_ROWS, row, encrypted);
    }

    fn add_version(&mut self, type_name: &str, row: &Entity) {
        if self.rows.contains_key(type_name) || self.rows.len() < MAX_TYPES {
            let rows = self.rows.entry(type_name.to_owned()).or_default();
            rows.rows += 1;
            let version = match row.get(Schema::VERSION_PROPERTY) {
                Some(ValueRef::Int32(version)) => version,
                _ => 1,
            };
            if rows.versions.contains_key(&version) || rows.versions.len() < MAX_TYPES {
                *rows.versions.entry(version).or_default() += 1;
            }
        }
    }

    fn add_values(&mut self, type_name: &str, row: &Entity, encrypted: &[String]) {
        let is_ciphertext = row.is_ciphertext();
        let values = self.values.entry(type_name.to_owned()).or_default();
        for property in row.properties().iter() {
            let (name, edm_type) = (property.name(), property.value().edm_type());
            if ENCRYPTION_HEADERS.contains(&name) {
                continue;
            }
            if values.get(name).is_none() {
                // Programs may make names of properties from data. Names that are known are still counted.
                if self.counted >= MAX_PROPERTIES {
                    continue;
                }
                self.counted += 1;
                values.insert(name.to_owned(), Values::default());
            }
            let Some(values) = values.get_mut(name) else {
                continue;
            };
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

    /// The rows of each type. Adds the findings about values and versions.
    pub(super) fn finish(
        self,
        manifest: &Manifest,
        findings: &mut Findings,
    ) -> BTreeMap<String, TypeRows> {
        let values = self.values.iter();
        for (type_name, (name, values)) in values
            .flat_map(|(type_name, values)| values.iter().map(move |named| (type_name, named)))
        {
            let property = if type_name.is_empty() {
                name.clone()
            } else {
                format!("{name} of {type_name}")
            };
            let declares = |stored: &StoredType| {
                (type_name == WIDE_ROWS || stored.name() == type_name)
                    && stored.encrypted.contains(name)
            };
            let plain: u64 = values.plain.values().map(|(count, _)| count).sum();
            let examples = values
                .plain
                .values()
                .filter_map(|(_, first)| first.as_ref());
            if plain > 0 && (values.encrypted > 0 || manifest.types.iter().any(declares)) {
                findings.add_with(Problem::Plaintext, &property, plain, examples.clone());
            }
            // Rows of wide entities mix the properties of several types, so several types of values are no problem there.
            if values.plain.len() > 1 && type_name != WIDE_ROWS {
                let most = values
                    .plain
                    .values()
                    .map(|(count, _)| *count)
                    .max()
                    .unwrap_or_default();
                let counts: Vec<_> = values
                    .plain
                    .iter()
                    .map(|(edm_type, (count, _))| {
                        format!(
                            "{} in {count} rows",
                            edm_type.name().trim_start_matches("Edm.")
                        )
                    })
                    .collect();
                let subject = format!("{property}: {}", counts.join(", "));
                findings.add_with(Problem::MixedTypes, &subject, plain - most, examples);
            }
        }
        for (type_name, rows) in &self.rows {
            let declared = manifest
                .types
                .iter()
                .filter(|stored| stored.name() == type_name)
                .map(|stored| stored.version);
            let latest = declared
                .chain(rows.versions.keys().copied())
                .max()
                .unwrap_or(1);
            for (version, count) in rows
                .versions
                .iter()
                .filter(|(version, _)| **version < latest)
            {
                let entities = if type_name.is_empty() {
                    "entities without a type"
                } else {
                    type_name
                };
                let subject = format!("{entities}: version {version}, and the latest is {latest}");
                findings.add_many(Problem::OldVersion, &subject, *count);
            }
        }
        self.rows
    }
}
