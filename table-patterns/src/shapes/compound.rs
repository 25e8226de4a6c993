//! The compound key pattern: an entity and all that belongs to it under one prefix.
//!
//! # Problem
//! An employee and the reviews of each year are read together. In two tables, or two partitions, that is two requests,
//! and no group transaction writes both.
//!
//! # Key layout
//!
//! | row | PartitionKey | RowKey |
//! |---|---|---|
//! | the entity | department | `empid_000123` |
//! | what belongs to it | department | `empid_000123_2012`, `empid_000123_2013` |
//!
//! The keys are the structs' own templates: `"empid_{id:06}"` and `"empid_{id:06}_{year}"`. The prefix must end
//! where no other entity's goes on: behind a part of fixed width, or behind a separator. [`Compound::new`] refuses a
//! key that ends in text, whose neighbours would be under it: give the template of the entity the separator that follows the
//! text in the others', as in `"{name}_"` and `"{name}_{year}"`.
//!
//! # Guarantees
//! One range query reads the entity with all of its rows, in the order of keys. Rows are written together in group
//! transactions, since they share a partition.
//!
//! # Failure windows
//! None: every write is one request. A query of several pages is no snapshot.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | all, one type, a sub-range | 1 per page |
//! | a group of writes | 1 |
//! | delete | 1 per page + 1, again on conflict |
//!
//! # Limits, and when not to use it
//! All is in one partition, with its limits. What is rarely read together is better apart: reading the entity's
//! neighbours then costs more than it saves. A delete is one group, of at most 100 rows; for more, bulk deletion.

use std::fmt;

use table_core::model::{Entity, Key, PartitionKey};
use table_core::query::{Filter, Select};
use table_core::store::{Error, Operation, Result};
use table_core::typed::{
    FromEntity, KeyOf, PartitionIn, RowBounds, RowPrefix, Table, TableEntity, TableGroup, TableQuery,
};

use crate::rows::conflict::{ATTEMPTS, Conflicts, version_of};

/// The rows under a prefix, read as `R`: an enum over their types. See the [module](self).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
/// use table_patterns::compound::Compound;
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// #[entity(type = "Employee")]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     #[row_key(format = "empid_{:06}")]
///     id: u32,
///     name: String,
/// }
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// #[entity(type = "Review", partition_key = "{department}", row_key = "empid_{id:06}_{year:04}")]
/// struct Review {
///     department: String,
///     id: u32,
///     year: u16,
///     rating: i32,
/// }
///
/// #[derive(Debug, PartialEq, EntityResolver)]
/// enum Row {
///     Employee(Employee),
///     Review(Review),
/// }
///
/// let employees = Table::<Employee>::new(MemoryStore::new(), "Employees")?;
/// employees.create_if_missing().await?;
/// let ken = Compound::<Row>::new(&employees, Employee::key("Sales", 123)?)?;
///
/// let mut group = ken.group();
/// group.insert(&Employee { department: "Sales".into(), id: 123, name: "Ken".into() })?;
/// group.insert(&Review { department: "Sales".into(), id: 123, year: 2012, rating: 4 })?;
/// group.commit().await?; // 1 request
///
/// let rows = ken.all().await?; // 1 request for the employee and all reviews
/// assert_eq!(rows.len(), 2);
/// let reviews = ken.of::<Review>()?.all().await?;
/// assert_eq!(reviews[0].rating, 4);
/// let (from, to) = (Review::key("Sales", 123, 2010)?, Review::key("Sales", 123, 2019)?);
/// assert_eq!(ken.between::<Review>(from, to)?.count().await?, 1);
/// # Ok(())
/// # }
/// ```
pub struct Compound<R> {
    table: Table<R>,
    partition: PartitionKey,
    prefix: String,
}

impl<R> Clone for Compound<R> {
    fn clone(&self) -> Self {
        let (partition, prefix) = (self.partition.clone(), self.prefix.clone());
        Self { table: self.table.clone(), partition, prefix }
    }
}

impl<R> fmt::Debug for Compound<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compound")
            .field("table", &self.table)
            .field("partition", &self.partition)
            .field("prefix", &self.prefix)
            .finish()
    }
}

impl<R: FromEntity> Compound<R> {
    /// An entity and the rows whose keys go on from its own. No request.
    ///
    /// # Errors
    /// The row key of `T` ends in text: other entities' keys go on from it, too. `R` has encrypted properties and the store does not encrypt.
    pub fn new<T: TableEntity>(table: &Table<T>, key: impl KeyOf<T>) -> Result<Self> {
        let (key, schema) = (key.into_key(), T::SCHEMA);
        if schema.row_key_is_open {
            return Err(Error::invalid_request(format!(
                "the row key '{0}' of {1} ends in text, so that other entities' row keys start with one of its: end the \
                 template in a separator, '{0}_', or name a prefix that does (`Compound::under`)",
                schema.row_key, schema.rust_name
            )));
        }
        Self::under(table, key.partition_key(), RowPrefix::new(key.row()))
    }

    /// The rows of a partition under a prefix: of all whose row keys start with it, so let it end in a separator or a
    /// part of fixed width. No request.
    ///
    /// # Errors
    /// A part of the prefix could not be encoded; `R` has encrypted properties and the store does not encrypt.
    pub fn under<T: FromEntity>(
        table: &Table<T>,
        partition: impl PartitionIn<T>,
        prefix: impl Into<RowPrefix<T>>,
    ) -> Result<Self> {
        let (partition, prefix) = (partition.partition_key().clone(), prefix.into().into_text()?);
        Ok(Self { table: table.view()?, partition, prefix })
    }

    /// All rows, to be narrowed down.
    pub fn query(&self) -> TableQuery<R> {
        self.table.query().partition(&self.partition).rows(RowPrefix::new(&self.prefix))
    }

    /// All rows, in the order of keys. One request a page.
    ///
    /// # Errors
    /// The store's; a row is not an `R`.
    pub async fn all(&self) -> Result<Vec<R>> {
        self.query().all().await
    }

    /// The rows of one type, to be narrowed down.
    ///
    /// # Errors
    /// `T` has encrypted properties and the store does not encrypt.
    pub fn of<T: FromEntity>(&self) -> Result<TableQuery<T>> {
        let table = self.table.view::<T>()?;
        Ok(table.query().partition(&self.partition).rows(RowPrefix::new(&self.prefix)))
    }

    /// The rows of one type under a prefix, or in a range of prefixes, of its own.
    ///
    /// # Errors
    /// `T` has encrypted properties and the store does not encrypt.
    pub fn rows<T: FromEntity>(&self, rows: impl RowBounds<T>) -> Result<TableQuery<T>> {
        Ok(self.of::<T>()?.rows(rows))
    }

    /// The rows of one type from one key to another, both included: the reviews of some years.
    ///
    /// # Errors
    /// `T` has encrypted properties and the store does not encrypt.
    pub fn between<T: FromEntity>(&self, from: impl KeyOf<T>, to: impl KeyOf<T>) -> Result<TableQuery<T>> {
        let prefix = |key: Key| RowPrefix::<T>::new(key.row());
        self.rows(prefix(from.into_key())..=prefix(to.into_key()))
    }

    /// An empty group transaction on the partition. No request.
    pub fn group(&self) -> TableGroup<R> {
        self.table.group(&self.partition)
    }

    /// Deletes all rows, in the versions they have, together; how many. One request a page and one that deletes; again
    /// where another writer was quicker.
    ///
    /// # Errors
    /// More rows than a group transaction takes; precondition failed, after the last attempt; the store's.
    pub async fn delete(&self) -> Result<usize> {
        let mut conflicts = Conflicts::new(ATTEMPTS);
        loop {
            let rows = self.keys().await?;
            let mut group = self.group();
            for row in &rows {
                let version = version_of(row)?;
                group.push(Operation::Delete(row.key().clone(), version)).map_err(|e| self.too_many(e))?;
            }
            if rows.is_empty() {
                return Ok(0);
            }
            match group.commit().await {
                Err(error) => conflicts.wait(error).await?,
                Ok(_) => return Ok(rows.len()),
            }
        }
    }

    /// Every row, whatever its type.
    async fn keys(&self) -> Result<Vec<Entity>> {
        let query =
            self.of::<Entity>()?.select(Select::new([Filter::PARTITION_KEY]).names()).with_index_entries();
        query.all().await
    }

    fn too_many(&self, error: Error) -> Error {
        if !error.is_limit_exceeded() {
            return error;
        }
        Error::invalid_request(format!(
            "the rows under ({}, {}…) are too many to be deleted together: delete them in bulk",
            self.partition, self.prefix
        ))
    }
}
