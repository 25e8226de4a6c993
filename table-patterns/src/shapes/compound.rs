//! The compound key pattern: an entity and the rows that belong to it, under one prefix of the RowKey.
//!
//! # Problem
//! A program reads an employee together with the reviews of each year. In two tables or two partitions that takes two
//! requests, and no group transaction can write both.
//!
//! # Key layout
//!
//! | row | PartitionKey | RowKey |
//! |---|---|---|
//! | the entity | department | `empid_000123` |
//! | the rows that belong to it | department | `empid_000123_2012`, `empid_000123_2013` |
//!
//! The keys follow the key templates of the structs: `"empid_{id:06}"` and `"empid_{id:06}_{year}"`. No other entity's
//! row key may start with the prefix: the prefix must end in a part of fixed width or in a separator. [`Compound::new`]
//! refuses a key that ends in text, because longer texts start with it. End the entity's template in the separator that
//! follows the text in the other templates: `"{name}_"` and `"{name}_{year}"`.
//!
//! # Guarantees
//! One range query reads the entity with all of its rows, in the order of keys. Group transactions write the rows
//! together, because they share a partition.
//!
//! # Failure windows
//! None: every write is 1 request. A query of several pages is not a snapshot.
//!
//! # Cost in requests
//!
//! | call | requests |
//! |---|---|
//! | all, one type, a sub-range | 1 per page |
//! | a group of writes | 1 |
//! | delete | 1 per page + 1, and again after a conflict |
//!
//! # Limits, and when not to use it
//! All rows are in one partition, with its limits. Store rows that are rarely read together in separate places: a query
//! also pays for the rows that it does not need. A delete is one group transaction of at most 100 rows; use
//! [`bulk`](crate::bulk) for more. In a table with indexes, [`Compound::delete`] is refused: delete the rows by a group of a
//! [`Table`].

use std::fmt;

use table_core::model::{Entity, Key, PartitionKey};
use table_core::query::{Filter, Select};
use table_core::store::{Conflicts, Error, ErrorKind, Operation, Result};
use table_core::typed::{
    FromEntity, KeyOf, PartitionIn, RowBounds, RowPrefix, TableEntity, TableQuery,
};

use crate::{Group, Table};

/// The rows under a prefix of the RowKey, read as `R`: an enum over their types. See the [module](self).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_patterns::prelude::*;
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
/// let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
/// employees.declare().await?;
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
        Self {
            table: self.table.clone(),
            partition,
            prefix,
        }
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
    /// An entity and the rows whose row keys start with the entity's. No request.
    ///
    /// # Errors
    /// The row key template of `T` ends in text; `R` has encrypted properties
    /// and the store does not encrypt.
    pub fn new<T: TableEntity>(table: &Table<T>, key: impl KeyOf<T>) -> Result<Self> {
        let (key, schema) = (key.into_key(), T::SCHEMA);
        if schema.row_key_is_open {
            return Err(Error::invalid_declaration(format!(
                "the row key '{0}' of {1} ends in text, so another entity's row key may start with it: end the template in a \
                 separator, '{0}_', or give a prefix that ends in one (`Compound::under`)",
                schema.row_key, schema.rust_name
            )));
        }
        Self::under(table, key.partition_key(), RowPrefix::escaped(key.row()))
    }

    /// All rows of a partition whose row keys start with a prefix. No request.
    ///
    /// The prefix should end in a separator or a part of fixed width, or it also selects rows of other entities.
    ///
    /// # Errors
    /// A part of the prefix that cannot be encoded; `R` has encrypted properties and the store does not encrypt.
    pub fn under<T: FromEntity>(
        table: &Table<T>,
        partition: impl PartitionIn<T>,
        prefix: impl Into<RowPrefix<T>>,
    ) -> Result<Self> {
        let (partition, prefix) = (
            partition.partition_key().clone(),
            prefix.into().into_text()?,
        );
        Ok(Self {
            table: table.view()?,
            partition,
            prefix,
        })
    }

    /// A query for all rows, which the caller can narrow. No request.
    pub fn query(&self) -> TableQuery<R> {
        self.table
            .query()
            .partition(&self.partition)
            .rows(RowPrefix::escaped(&self.prefix))
    }

    /// Reads all rows in the order of keys. 1 request per page.
    ///
    /// # Errors
    /// Errors of the store; a row that is not an `R`.
    pub async fn all(&self) -> Result<Vec<R>> {
        self.query().all().await
    }

    /// A query for the rows of one type, which the caller can narrow. No request.
    ///
    /// # Errors
    /// `T` has encrypted properties and the store does not encrypt.
    pub fn of<T: FromEntity>(&self) -> Result<TableQuery<T>> {
        let table = self.table.view::<T>()?;
        Ok(table
            .query()
            .partition(&self.partition)
            .rows(RowPrefix::escaped(&self.prefix)))
    }

    /// A query for the rows of one type under a longer prefix, or in a range of prefixes. No request.
    ///
    /// # Errors
    /// `T` has encrypted properties and the store does not encrypt.
    pub fn rows<T: FromEntity>(&self, rows: impl RowBounds<T>) -> Result<TableQuery<T>> {
        Ok(self.of::<T>()?.rows(rows))
    }

    /// A query for the rows of one type from one key to another, both included. No request.
    ///
    /// # Errors
    /// `T` has encrypted properties and the store does not encrypt.
    pub fn between<T: FromEntity>(
        &self,
        from: impl KeyOf<T>,
        to: impl KeyOf<T>,
    ) -> Result<TableQuery<T>> {
        let prefix = |key: Key| RowPrefix::<T>::escaped(key.row());
        self.rows(prefix(from.into_key())..=prefix(to.into_key()))
    }

    /// An empty group transaction on the partition. No request.
    pub fn group(&self) -> Group<R> {
        self.table.group(&self.partition)
    }

    /// Deletes all rows atomically, in the versions that were read. Returns the number of rows. 1 request per page and 1
    /// for the deletion; again after a conflict.
    ///
    /// # Errors
    /// More rows than a group transaction takes; precondition failed, after the last of 10 attempts; errors of the store.
    pub async fn delete(&self) -> Result<usize> {
        let mut conflicts = Conflicts::new(Conflicts::ATTEMPTS);
        loop {
            let rows = self.keys().await?;
            let mut group = self.group();
            for row in &rows {
                let version = row.version()?;
                group
                    .push(Operation::Delete(row.key().clone(), version))
                    .map_err(|e| self.too_many_rows(e))?;
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

    /// The keys and versions of all rows of any type.
    async fn keys(&self) -> Result<Vec<Entity>> {
        let query = self
            .of::<Entity>()?
            .select(Select::new([Filter::PARTITION_KEY]).names())
            .with_index_entries();
        query.all().await
    }

    fn too_many_rows(&self, error: Error) -> Error {
        let ErrorKind::LimitExceeded {
            kind,
            quantity,
            allowed,
            actual,
        } = error.root().kind()
        else {
            return error;
        };
        let quantity = format!(
            "{quantity} that deletes the rows under ({}, {}…) (delete them with `bulk::delete_where`)",
            self.partition, self.prefix
        );
        Error::limit_of_kind(*kind, quantity, *allowed, *actual)
    }
}
