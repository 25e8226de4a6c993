//! The manifest entry of a type: created from and compared with the schema of a program's type, and added by the first write of the type.

use super::{Schema, Spread};
use crate::manifest::{EntityType, Expiry, Layout, Manifest, StoredType};
use crate::model::{MANIFEST_PARTITION, TableName};
use crate::store::{Error, ErrorKind, ManifestCache, Outcome, PlainWrite, Result, TableStore};

impl Layout {
    /// Returns the layout of a type.
    pub fn of(schema: &Schema) -> Self {
        match schema {
            Schema { wide: true, .. } => Self::Wide,
            Schema { spread: Some(Spread { buckets, salt }), .. } => {
                Self::Spread { buckets: *buckets, salt: (*salt).into() }
            }
            _ => Self::of_one_row(
                schema.properties.iter().filter(|p| p.large.is_some()).map(|p| p.name.into()),
            ),
        }
    }

    /// Whether a program with this schema may store entities in this layout.
    ///
    /// For large entities the lists of large properties may differ: a program does not change properties that it does not
    /// know. But a property that is large here must not be plain in the schema, because the program would take the
    /// reference to a blob for the value.
    pub fn serves(&self, schema: &Schema) -> bool {
        let own = Self::of(schema);
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
    /// Creates the manifest entry of a type.
    pub fn of(schema: &Schema) -> Self {
        let encrypted = schema.properties.iter().filter(|p| p.encrypted);
        Self {
            entity: Some(schema.entity_type()),
            // The derive macro ensures that both fit an `i32`.
            version: schema.version.cast_signed(),
            reader: schema.min_reader.cast_signed(),
            layout: Layout::of(schema),
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
        let (name, program, stored, own) = (self.name(), schema.rust_name, &self.layout, Layout::of(schema));
        let remedy = match (stored, &own) {
            (Layout::Spread { .. }, Layout::Spread { .. }) => {
                "change the buckets by a migration (`SpreadTable::with_previous`, then `migrate`)"
            }
            _ => "declare the layout of the manifest, or store the type in another table",
        };
        Err(Error::invalid_request(format!(
            "the manifest of the table '{table}' says that {name} is stored as {stored}, and this program stores {program} as {own}: {remedy}"
        )))
    }

    /// Checks that the program encrypts the properties that are encrypted according to the manifest.
    ///
    /// # Errors
    /// Fails if the program would write such a property in plaintext; the error names the property.
    pub fn check_encrypted(&self, table: &TableName, schema: &Schema) -> Result<()> {
        let mut in_plaintext = schema.properties.iter().filter(|p| !p.encrypted).map(|p| p.name);
        let Some(property) = in_plaintext.find(|name| self.encrypted.contains(*name)) else { return Ok(()) };
        let name = schema.rust_name;
        Err(Error::invalid_request(format!(
            "the manifest of the table '{table}' says that '{property}' of {name} is encrypted, and this program would write it in \
             plaintext: mark the field `#[encrypt]`"
        )))
    }

    /// Checks that a program of the manifest's schema version declares the same expiry. Programs of an earlier version need not know it.
    ///
    /// # Errors
    /// Fails if the declarations differ: a program that does not know when an entity expires would show it after that time.
    pub fn check_expiry(&self, table: &TableName, schema: &Schema) -> Result<()> {
        let Some(stored) = &self.expiry else { return Ok(()) };
        if self.version != schema.version.cast_signed() || schema.expiry.as_ref() == Some(stored) {
            return Ok(());
        }
        let (name, version) = (schema.rust_name, self.version);
        let own = schema.expiry.as_ref().map_or_else(|| "no expiry".to_owned(), described);
        Err(Error::invalid_request(format!(
            "the manifest of the table '{table}' says that {name} in version {version} has {}, and this program declares {own}: declare \
             the same `#[expires]` and `#[deleted_at]`, or another `version`",
            described(stored)
        )))
    }
}

/// Returns the declarations of an expiry, for errors.
fn described(expiry: &Expiry) -> String {
    let expires = expiry.expires.as_ref().map(|name| format!("the expiry '{name}'"));
    let deleted = expiry.deleted.as_ref();
    let deleted = deleted.map(|name| format!("the deletion '{name}', kept for {} days", expiry.keep_days));
    expires.into_iter().chain(deleted).collect::<Vec<_>>().join(" and ")
}

impl Manifest {
    /// Returns the entry of a type; `None` if no program has opened the table for it.
    pub fn type_of(&self, entity: &EntityType) -> Option<&StoredType> {
        let is_of_type =
            |stored: &&StoredType| stored.entity.as_ref().is_some_and(|of| of.has_same_rows(entity));
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
        if let Some(stored) = self.type_of(&entity) {
            stored.check_layout(table, schema)?;
            stored.check_encrypted(table, schema)?;
            return stored.check_expiry(table, schema);
        }
        let may_share_rows = |stored: &&StoredType| {
            stored.layout.large().is_none()
                && stored.entity.as_ref().is_some_and(|of| !of.is_disjoint_from(&entity))
        };
        self.types.iter().find(may_share_rows).map_or(Ok(()), |other| other.check_layout(table, schema))
    }

    /// Returns the entry of a type as a program with this schema has to write it; `None` if the manifest says everything
    /// already, or need not say anything because the entities are plain rows that do not expire.
    pub fn type_to_register(&self, schema: &Schema) -> Option<StoredType> {
        let declared = StoredType::of(schema);
        match self.type_of(&schema.entity_type()) {
            Some(stored) => Some(stored.with(&declared)).filter(|update| update != stored),
            None => Some(declared)
                .filter(|declared| declared.layout != Layout::Plain || declared.expiry.is_some()),
        }
    }
}

/// Maximum number of attempts to add a type to the manifest while other programs change its row.
const MAX_ATTEMPTS: usize = 16;

/// Permits a write of an entity whose type must be in the manifest. `check` refuses the write, or returns the row of the type if the manifest lacks
/// the type or has an earlier declaration: the row is then written first. Keep the result until the write is done.
///
/// 1 request if the manifest was not read for [`ManifestCache::LIFE`]. 2 more if the row is missing or has to change, so for the first write of the
/// type in the table. No request in an unmanaged store.
///
/// # Errors
/// Returns the errors of `check` and of the store. Nothing of the entity was written.
#[doc(hidden)]
pub async fn permit_registered(
    store: &dyn TableStore,
    manifests: &ManifestCache,
    table: &TableName,
    schema: &Schema,
    check: impl Fn(&Manifest) -> Result<Option<StoredType>> + Send + Sync,
) -> Result<PlainWrite> {
    let mut attempt = 1;
    loop {
        let permitted = manifests.plain_write(store, table).await?;
        let missing = check(permitted.manifest())?;
        let Some(row) = missing.filter(|_| !manifests.is_unmanaged()) else { return Ok(permitted) };
        let operation = row.operation()?;
        let key = operation.key().clone();
        match store.write(table, operation).await {
            Err(error) if error.is_conflict() && attempt < MAX_ATTEMPTS => {}
            Err(error) if error.is_conflict() => return Err(Error::precondition_failed(table, key)),
            // The row of the manifest may be written; the entity is not.
            Err(error) => return Err(with_advice(error, table, schema).with_outcome(Outcome::NotApplied)),
            Ok(_) => {
                let local = store.local_writers();
                local.map(|local| local.change(&store.profile().table_identity(table)));
            }
        }
        manifests.forget(table);
        attempt += 1;
    }
}

/// Adds advice if the credential may not write the manifest, for example because it may only update rows.
fn with_advice(error: Error, table: &TableName, schema: &Schema) -> Error {
    let ErrorKind::Forbidden(reason) = error.kind() else { return error };
    let kind = ErrorKind::Forbidden(format!(
        "{reason}; the first write of {} to '{table}' adds the type to the table's manifest, and the credential does not allow this: \
         write an entity of the type once by a program that may write the partition '{MANIFEST_PARTITION}'",
        schema.rust_name
    ));
    error.into_cause_of(kind)
}
