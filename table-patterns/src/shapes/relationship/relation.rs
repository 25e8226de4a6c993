use std::fmt;
use std::sync::Arc;

use table_core::store::Result;
use table_core::typed::{EntityKey, FromEntity, PartitionOf, RowPrefix, Table, TableQuery};

/// How the keys of `B` follow from an `A`: a convention, said once.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
/// use table_patterns::relationship::Relation;
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// #[entity(partition_key = "departments", row_key = "{name}")]
/// struct Department {
///     name: String,
/// }
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     #[row_key]
///     id: u32,
/// }
///
/// let store = std::sync::Arc::new(MemoryStore::new());
/// let employees = Table::<Employee>::new(store, "Employees")?;
/// employees.create_if_missing().await?;
/// let staff = Relation::many(employees.clone(), |department: &Department| {
///     Ok((Employee::partition(&department.name)?, None))
/// });
/// employees.insert(&Employee { department: "Sales".into(), id: 1 }).await?;
/// let sales = Department { name: "Sales".into() };
/// assert_eq!(staff.of(&sales)?.count().await?, 1); // 1 request a page
/// # Ok(())
/// # }
/// ```
pub struct Relation<A, B, K> {
    table: Table<B>,
    keys: Keys<A, K>,
}

/// What a convention says of an `A`.
type Keys<A, K> = Arc<dyn Fn(&A) -> Result<K> + Send + Sync>;

/// Where the many are: their partition, and the start of their row keys.
type Many<B> = (PartitionOf<B>, Option<RowPrefix<B>>);

impl<A, B: FromEntity> Relation<A, B, EntityKey<B>> {
    /// One-to-one: the key of the other.
    pub fn one(table: Table<B>, key: impl Fn(&A) -> Result<EntityKey<B>> + Send + Sync + 'static) -> Self {
        Self { table, keys: Arc::new(key) }
    }

    /// The other, if it is there. One request.
    ///
    /// # Errors
    /// The store's; a part of the key cannot be encoded.
    pub async fn of(&self, one: &A) -> Result<Option<B>> {
        self.table.get((self.keys)(one)?).await
    }

    /// The others of several, in their order. One request for each distinct key, several at once.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub async fn of_all(&self, several: &[A]) -> Result<Vec<Option<B>>>
    where
        B: Clone,
    {
        let keys = several.iter().map(|one| (self.keys)(one)).collect::<Result<Vec<_>>>()?;
        self.table.get_many(keys).await
    }
}

impl<A, B: FromEntity> Relation<A, B, Many<B>> {
    /// One-to-many: the partition of the others, and what their row keys start with.
    pub fn many(
        table: Table<B>,
        keys: impl Fn(&A) -> Result<(PartitionOf<B>, Option<RowPrefix<B>>)> + Send + Sync + 'static,
    ) -> Self {
        Self { table, keys: Arc::new(keys) }
    }

    /// The others, to be narrowed down. No request yet.
    ///
    /// # Errors
    /// A part of the key cannot be encoded.
    pub fn of(&self, one: &A) -> Result<TableQuery<B>> {
        let (partition, prefix) = (self.keys)(one)?;
        let query = self.table.query().partition(partition);
        Ok(match prefix {
            Some(prefix) => query.rows(prefix),
            None => query,
        })
    }
}

impl<A, B, K> Clone for Relation<A, B, K> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), keys: Arc::clone(&self.keys) }
    }
}

impl<A, B, K> fmt::Debug for Relation<A, B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relation").field("table", &self.table).finish_non_exhaustive()
    }
}
