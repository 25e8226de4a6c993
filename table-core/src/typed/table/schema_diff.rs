use std::collections::BTreeMap;
use std::fmt;

use futures_util::TryStreamExt as _;
use serde::Serialize;

use super::PlainTable;
use super::readable::read;
use crate::model::{EdmType, Entity};
use crate::query::UnreadableEntity;
use crate::store::Result;
use crate::typed::derived::NamePieces;
use crate::typed::split::{count_name, is_part};
use crate::typed::{PropertySchema, Schema, TableEntity};

/// The differences between a type and the stored rows of the type: the plan of a migration.
///
/// ```
/// use table_core::prelude::*;
/// # use table_core::typed::PlainTable;
/// use table_core::typed::SchemaDiff;
/// # #[derive(TableEntity)]
/// # struct Employee { #[partition_key] department: String, #[row_key] id: u32, age: i64 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let rows = PlainTable::<Entity>::new(MemoryStore::new(), "Employees")?;
/// # rows.create_if_missing().await?;
/// let diff = SchemaDiff::of::<Employee>(&rows).await?;
/// assert_eq!(diff.unreadable, 0, "{diff}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct SchemaDiff {
    /// The version of the type's schema.
    pub version: u32,
    /// The number of rows of the type.
    pub rows: u64,
    /// The number of rows by schema version. `upgrade_all` rewrites the rows of older versions.
    pub versions: BTreeMap<i64, u64>,
    /// The properties of the type and of the rows, by name.
    pub properties: BTreeMap<String, PropertyDiff>,
    /// The number of rows that cannot be read as the type.
    pub unreadable: u64,
    /// The first 100 rows that cannot be read.
    pub listed: Vec<UnreadableEntity>,
}

/// One property in a [`SchemaDiff`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PropertyDiff {
    /// The type that the program declares; `None` if the type does not have the property.
    pub declared: Option<EdmType>,
    /// Whether the program accepts rows without the property.
    pub optional: bool,
    /// The number of rows by the stored type.
    pub found: BTreeMap<EdmType, u64>,
    /// The number of rows without the property.
    pub absent: u64,
    /// The number of rows that have the property only under an alias: a former name.
    pub under_alias: u64,
}

/// Rows that cannot be read and are listed.
const MAX_LISTED: usize = 100;

impl SchemaDiff {
    /// Reads every row of the type and compares it with the type. Writes nothing. 1 request per page.
    ///
    /// Rows of older versions are converted, so the list has the rows that an upgrade would refuse. For a type with large fields, or in
    /// several rows, the values are not read, and no row counts as unreadable: [`Upgrade::diff`](super::Upgrade::diff) of the handle reads
    /// whole entities of every layout.
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub async fn of<T: TableEntity>(rows: &PlainTable<Entity>) -> Result<Self> {
        let (schema, mut diff) = (T::SCHEMA, Self::of_no_rows(T::SCHEMA));
        // A row with a reference to a blob, or a part of a wide entity, is not a whole `T` and cannot be decoded as one.
        let is_one_row = schema.properties.iter().all(|p| p.large.is_none()) && !schema.wide;
        let query = match T::type_filter() {
            Some(filter) => rows.query().raw_filter(filter),
            None => rows.query(),
        };
        let mut stored = query.stream_readable();
        while let Some(row) = stored.try_next().await? {
            match row {
                Ok(row) => {
                    diff.add(schema, &row);
                    if is_one_row && let Err(unreadable) = read::<T>(row) {
                        diff.list_unreadable(unreadable);
                    }
                }
                Err(unreadable) => diff.add_unreadable(unreadable),
            }
        }
        Ok(diff)
    }

    /// Creates the difference before any row is read: only the declared properties.
    pub(super) fn of_no_rows(schema: &Schema) -> Self {
        let mut diff = Self {
            version: schema.version,
            ..Self::default()
        };
        for property in schema.properties {
            let (declared, optional) = (Some(property.edm_type), property.optional);
            let of_type = PropertyDiff {
                declared,
                optional,
                ..PropertyDiff::default()
            };
            diff.properties.insert(property.name.to_owned(), of_type);
        }
        diff
    }

    /// Adds a row that the store cannot read.
    pub(super) fn add_unreadable(&mut self, row: UnreadableEntity) {
        self.rows += 1;
        self.list_unreadable(row);
    }

    /// Returns the number of rows of older schema versions, which an upgrade rewrites.
    pub fn older(&self) -> u64 {
        self.versions
            .range(..i64::from(self.version))
            .map(|(_, rows)| rows)
            .sum()
    }

    /// Lists a row that cannot be read. The row itself is counted already.
    pub(super) fn list_unreadable(&mut self, row: UnreadableEntity) {
        self.unreadable += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(row);
        }
    }

    /// Counts a row: its schema version, the stored types of its properties, and the declared properties that it lacks.
    pub(super) fn add(&mut self, schema: &Schema, row: &Entity) {
        self.rows += 1;
        // A row whose version is no number cannot be read, and is listed.
        if let Ok(version) = schema.stored_version(row) {
            *self.versions.entry(version).or_default() += 1;
        }
        let system = [Schema::VERSION_PROPERTY, Schema::READER_PROPERTY];
        for property in row.properties() {
            let name = property.name();
            if let Some(split) = split_of(schema, name) {
                // The number of parts stands for the value.
                if is_count(name, split) {
                    let found = &mut self
                        .properties
                        .entry(split.name.to_owned())
                        .or_default()
                        .found;
                    *found.entry(split.edm_type).or_default() += 1;
                }
                continue;
            }
            let is_alias = schema
                .properties
                .iter()
                .any(|declared| declared.name != name && declared.has_name(name));
            if !is_alias && !system.contains(&name) && schema.discriminator.property() != Some(name)
            {
                let found = &mut self.properties.entry(name.to_owned()).or_default().found;
                *found.entry(property.value().edm_type()).or_default() += 1;
            }
        }
        for declared in schema.properties {
            let in_parts = declared.split
                && row
                    .properties()
                    .iter()
                    .any(|p| is_count(p.name(), declared));
            let has_name = in_parts || row.get(declared.name).is_some();
            let diff = self.properties.entry(declared.name.to_owned()).or_default();
            if !has_name && has_alias(row, declared) {
                diff.under_alias += 1;
            } else if !has_name {
                diff.absent += 1;
            }
        }
    }
}

/// Returns the split property of which a property is a part, or the number of parts, under its present name.
fn split_of<'s>(schema: &'s Schema, name: &str) -> Option<&'s PropertySchema> {
    let mut split = schema.properties.iter().filter(|declared| declared.split);
    split.find(|declared| is_part(NamePieces::of(name), declared.name))
}

fn is_count(name: &str, split: &PropertySchema) -> bool {
    name == count_name(split.name)
}

fn has_alias(row: &Entity, declared: &PropertySchema) -> bool {
    !declared.aliases.is_empty()
        && row
            .properties()
            .iter()
            .any(|property| declared.has_name(property.name()))
}

/// Prints the counts, and a line for each property that differs from the type.
impl fmt::Display for SchemaDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rows, unreadable, ..
        } = self;
        writeln!(
            f,
            "{rows} rows, {} of an older schema version, {unreadable} that cannot be read",
            self.older()
        )?;
        for (name, property) in self
            .properties
            .iter()
            .filter(|(_, property)| property.differs())
        {
            writeln!(f, "{name}: {property}")?;
        }
        for row in &self.listed {
            writeln!(f, "{}: {}", row.key, row.error)?;
        }
        Ok(())
    }
}

impl PropertyDiff {
    /// Whether a row stores the property in another type or under a former name, lacks a property that the type needs, or has a property that
    /// the type does not have.
    pub fn differs(&self) -> bool {
        let other_type = self.found.keys().any(|found| Some(*found) != self.declared);
        other_type || self.under_alias > 0 || (self.absent > 0 && !self.optional)
    }
}

impl fmt::Display for PropertyDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.declared {
            Some(declared) => write!(f, "declared {declared}")?,
            None => f.write_str("not declared")?,
        }
        for (n, (edm_type, rows)) in self.found.iter().enumerate() {
            match n {
                0 => write!(f, ", stored as {edm_type} in {rows} rows")?,
                _ => write!(f, ", {edm_type} in {rows}")?,
            }
        }
        if self.under_alias > 0 {
            write!(f, ", under a former name in {}", self.under_alias)?;
        }
        if self.absent > 0 {
            write!(f, ", absent in {}", self.absent)?;
        }
        Ok(())
    }
}
