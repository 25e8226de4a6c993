//! The manifest row of a type: created from and compared with the schema of a program's type.

use super::{Schema, Spread};
use crate::manifest::{EntityType, Expiry, Layout, Manifest, StoredType};
use crate::model::TableName;
use crate::store::{Error, Result};

impl Layout {
    /// Returns the layout of a type.
    pub fn from_schema(schema: &Schema) -> Self {
        match schema {
            Schema { wide: true, .. } => Self::Wide,
            Schema {
                spread: Some(Spread { buckets, salt }),
                ..
            } => Self::Spread {
                buckets: *buckets,
                salt: (*salt).into(),
            },
            _ => Self::of_one_row(
                schema
                    .properties
                    .iter()
                    .filter(|p| p.large.is_some())
                    .map(|p| p.name.into()),
            ),
        }
    }

    /// Whether a program with this schema may store entities in this layout.
    ///
    /// For large entities the lists of large properties may differ: a program does not change properties that it does not
    /// know. But a property that is large here must not be plain in the schema, because the program would take the
    /// reference to a blob for the value.
    pub fn serves(&self, schema: &Schema) -> bool {
        let own = Self::from_schema(schema);
        match (self.large(), own.large()) {
            (Some(large), Some(_)) => !schema
                .properties
                .iter()
                .any(|p| p.large.is_none() && large.iter().any(|name| name == p.name)),
            _ => *self == own,
        }
    }
}

impl StoredType {
    /// Creates the manifest row of a type.
    pub fn from_schema(schema: &Schema) -> Self {
        let encrypted = schema.properties.iter().filter(|p| p.encrypted);
        Self {
            entity: Some(schema.entity_type()),
            // The derive macro ensures that both fit an `i32`.
            version: schema.version.cast_signed(),
            reader: schema.min_reader.cast_signed(),
            layout: Layout::from_schema(schema),
            encrypted: encrypted.map(|p| p.name.to_owned()).collect(),
            expiry: schema.expiry.clone(),
            etag: None,
        }
    }

    /// Checks that a program with this schema stores the entities as the manifest says.
    ///
    /// # Errors
    /// Fails if the layouts differ; the error names both.
    pub fn check_layout(&self, table: &TableName, schema: &Schema) -> Result<()> {
        if self.layout.serves(schema) {
            return Ok(());
        }
        let (name, program, stored, own) = (
            self.name(),
            schema.rust_name,
            &self.layout,
            Layout::from_schema(schema),
        );
        let remedy = match (stored, &own) {
            (Layout::Spread { .. }, Layout::Spread { .. }) => {
                "change the buckets by a migration (`SpreadTable::with_previous`, then `migrate`)"
            }
            _ => "declare the layout of the manifest, or store the type in another table",
        };
        Err(Error::manifest_mismatch(format!(
            "the manifest of the table '{table}' says that {name} is stored as {stored}, and this program stores {program} as {own}: {remedy}"
        )))
    }

    /// Checks that the program encrypts the properties that are encrypted according to the manifest.
    ///
    /// # Errors
    /// Fails if the program would write such a property in plaintext; the error names the property.
    pub fn check_encrypted(&self, table: &TableName, schema: &Schema) -> Result<()> {
        let mut in_plaintext = schema
            .properties
            .iter()
            .filter(|p| !p.encrypted)
            .map(|p| p.name);
        let Some(property) = in_plaintext.find(|name| self.encrypted.contains(*name)) else {
            return Ok(());
        };
        let name = schema.rust_name;
        Err(Error::manifest_mismatch(format!(
            "the manifest of the table '{table}' says that '{property}' of {name} is encrypted, and this program would write it in \
             plaintext: mark the field `#[encrypt]`"
        )))
    }

    /// Checks that a program of the manifest's schema version declares the same expiry. Programs of an earlier version need not know it.
    ///
    /// # Errors
    /// Fails if the declarations differ: a program that does not know when an entity expires would show it after that time.
    pub fn check_expiry(&self, table: &TableName, schema: &Schema) -> Result<()> {
        let Some(stored) = &self.expiry else {
            return Ok(());
        };
        if self.version != schema.version.cast_signed() || schema.expiry.as_ref() == Some(stored) {
            return Ok(());
        }
        let (name, version) = (schema.rust_name, self.version);
        let own = schema
            .expiry
            .as_ref()
            .map_or_else(|| "no expiry".to_owned(), described);
        Err(Error::manifest_mismatch(format!(
            "the manifest of the table '{table}' says that {name} in version {version} has {}, and this program declares {own}: declare \
             the same `#[expires]` and `#[deleted_at]`, or another `version`",
            described(stored)
        )))
    }
}

/// Returns the declarations of an expiry, for errors.
fn described(expiry: &Expiry) -> String {
    let expires = expiry
        .expires
        .as_ref()
        .map(|name| format!("the expiry '{name}'"));
    let deleted = expiry.deleted.as_ref();
    let deleted =
        deleted.map(|name| format!("the deletion '{name}', kept for {} days", expiry.keep_days));
    expires
        .into_iter()
        .chain(deleted)
        .collect::<Vec<_>>()
        .join(" and ")
}

impl Manifest {
    /// Returns the row of a type; `None` if no program has opened the table for it.
    pub fn type_of(&self, entity: &EntityType) -> Option<&StoredType> {
        let is_of_type = |stored: &&StoredType| {
            stored
                .entity
                .as_ref()
                .is_some_and(|of| of.has_same_rows(entity))
        };
        self.types.iter().find(is_of_type)
    }

    /// Checks that a program with this schema may write its entities: the manifest has no other layout for them, and
    /// no encrypted property that the program would write in plaintext.
    ///
    /// The rows of two types without discriminators cannot be told apart. So a type of several rows or buckets excludes
    /// every other type that may have the same rows.
    ///
    /// # Errors
    /// Fails if the program may not; the error names both sides.
    pub fn check_type(&self, table: &TableName, schema: &Schema) -> Result<()> {
        if self.types.is_empty() {
            return Ok(());
        }
        let entity = schema.entity_type();
        let is_nested = |stored: &&StoredType| {
            stored
                .entity
                .as_ref()
                .is_some_and(|of| of.is_nested_with(&entity))
        };
        if let Some(other) = self.types.iter().find(is_nested) {
            let (own, name) = (schema.rust_name, other.name());
            return Err(Error::manifest_mismatch(format!(
                "the manifest of the table '{table}' has {name}, whose keys begin like those of {own}: queries and deletions of one type would \
                 find the entities of the other; give both a `type`, or store one of them in another table"
            )));
        }
        if let Some(stored) = self.type_of(&entity) {
            stored.check_layout(table, schema)?;
            stored.check_encrypted(table, schema)?;
            return stored.check_expiry(table, schema);
        }
        let may_share_rows = |stored: &&StoredType| {
            stored.layout.large().is_none()
                && stored
                    .entity
                    .as_ref()
                    .is_some_and(|of| !of.is_disjoint_from(&entity))
        };
        self.types
            .iter()
            .find(may_share_rows)
            .map_or(Ok(()), |other| other.check_layout(table, schema))
    }

    /// Returns the row of a type as a program with this schema has to write it; `None` if the manifest says everything
    /// already, or need not say anything because the entities are plain rows that do not expire.
    pub fn type_to_register(&self, schema: &Schema) -> Option<StoredType> {
        let declared = StoredType::from_schema(schema);
        match self.type_of(&schema.entity_type()) {
            Some(stored) => Some(stored.merged_with(&declared)).filter(|update| update != stored),
            None => Some(declared)
                .filter(|declared| declared.layout != Layout::Plain || declared.expiry.is_some()),
        }
    }
}
