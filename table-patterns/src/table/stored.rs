//! Queries of entities as [`Stored`], to be replaced or removed.

use std::fmt;

use futures_util::{Stream, TryStreamExt as _};
use table_core::model::Entity;
use table_core::query::{Continuation, Filter, Page, Select};
use table_core::store::Result;
use table_core::typed::load::LoadedRow;
use table_core::typed::{FromEntity, Requirements, TableEntity, TableQuery};

use super::Table;
use crate::index::Stored;

impl<T: TableEntity> Table<T> {
    /// The entities that a [`query`](Self::query) of this table finds, as stored. The cost is that of the
    /// query; whole entities are read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// # use table_patterns::index::IndexOptions;
    /// # use table_patterns::Database;
    /// # #[derive(Clone, Debug, TableEntity)]
    /// # #[entity(type = "Employee", rename_all = "PascalCase")]
    /// # #[index(email, row_key = "email_{email}", unique = "partition")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     email: Option<String>,
    /// # }
    /// # let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
    /// # for id in 1..4 {
    /// #     employees.insert(&Employee { department: "Sales".into(), id, email: Some(format!("{id}@x")) }).await?;
    /// # }
    /// let sales = employees.query().partition(Employee::partition("Sales")?);
    /// for employee in employees.stored(sales).all().await? {
    ///     employees.replace_stored(&employee, &Employee { email: None, ..(*employee).clone() }).await?;
    /// }
    /// assert_eq!(employees.by(Employee::by_email("Sales")).count().await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stored(&self, query: TableQuery<T>) -> StoredQuery<T> {
        StoredQuery {
            query: query.project(),
        }
    }
}

/// A query that returns entities as stored: created by [`Table::stored`], then run.
#[must_use = "a query does nothing until it is run"]
pub struct StoredQuery<T> {
    query: TableQuery<T, Whole<T>>,
}

impl<T: TableEntity> StoredQuery<T> {
    /// The results one after another; see [`TableQuery::stream`].
    ///
    /// # Errors
    /// An error of the store, or a row that is not a `T`: as the last item.
    pub fn stream(&self) -> impl Stream<Item = Result<Stored<T>>> + Send + Unpin + use<T> {
        self.query.stream().map_ok(|whole| whole.0)
    }

    /// All results; see [`TableQuery::all`].
    ///
    /// # Errors
    /// As for [`stream`](Self::stream).
    pub async fn all(&self) -> Result<Vec<Stored<T>>> {
        Ok(self
            .query
            .all()
            .await?
            .into_iter()
            .map(|whole| whole.0)
            .collect())
    }

    /// The first result; see [`TableQuery::first`].
    ///
    /// # Errors
    /// As for [`stream`](Self::stream).
    pub async fn first(&self) -> Result<Option<Stored<T>>> {
        Ok(self.query.first().await?.map(|whole| whole.0))
    }

    /// The number of results; see [`TableQuery::count`].
    ///
    /// # Errors
    /// As for [`stream`](Self::stream).
    pub async fn count(&self) -> Result<usize> {
        self.query.count().await
    }

    /// One page, from the start or from where another ended; see [`TableQuery::page`].
    ///
    /// # Errors
    /// As for [`stream`](Self::stream).
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<Stored<T>>> {
        let Page {
            items,
            continuation,
        } = self.query.page(from).await?;
        Ok(Page {
            items: items.into_iter().map(|whole| whole.0).collect(),
            continuation,
        })
    }
}

impl<T> fmt::Debug for StoredQuery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.query.fmt(f)
    }
}

/// The decoded item of the query. The type is private: code that could decode an entity of its own making would
/// create a [`Stored`] that was never read.
struct Whole<T>(Stored<T>);

impl<T: TableEntity> FromEntity for Whole<T> {
    fn select() -> Option<Select> {
        None
    }

    fn type_filter() -> Option<Filter> {
        T::type_filter()
    }

    fn requirements() -> Requirements {
        T::requirements()
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        Stored::read(entity).map(Self)
    }

    fn from_loaded(row: LoadedRow) -> Result<Self> {
        Stored::loaded(row).map(Self)
    }
}
