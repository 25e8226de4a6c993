//! Relations between entities by typed keys.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use table_core::model::{EdmType, Key, ValueError, ValueRef};
use table_core::store::Result;
use table_core::typed::{
    EntityKey, FromEntity, KeyOf, PartitionOf, Property, PropertySink, RowPrefix, TableEntity,
    TableQuery,
};

use crate::Table;

/// A relationship by convention: the keys of a `B` follow from an `A`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_patterns::prelude::*;
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
/// let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
/// employees.declare().await?;
/// let staff = Relation::many(employees.clone(), |department: &Department| {
///     Ok((Employee::partition(&department.name)?, None))
/// });
/// employees.insert(&Employee { department: "Sales".into(), id: 1 }).await?;
/// let sales = Department { name: "Sales".into() };
/// assert_eq!(staff.of(&sales)?.count().await?, 1); // 1 request per page
/// # Ok(())
/// # }
/// ```
pub struct Relation<A, B, K> {
    table: Table<B>,
    keys: Keys<A, K>,
}

/// Computes keys of `B` from an `A`.
type Keys<A, K> = Arc<dyn Fn(&A) -> Result<K> + Send + Sync>;

/// The partition of many entities, and the prefix of their row keys.
type Many<B> = (PartitionOf<B>, Option<RowPrefix<B>>);

impl<A, B: FromEntity> Relation<A, B, EntityKey<B>> {
    /// A one-to-one relationship: `key` computes the key of the other entity. No request.
    pub fn one(
        table: Table<B>,
        key: impl Fn(&A) -> Result<EntityKey<B>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            table,
            keys: Arc::new(key),
        }
    }

    /// The other entity; `None` if it does not exist. 1 request.
    ///
    /// # Errors
    /// Errors of the store; a part of the key that cannot be encoded.
    pub async fn of(&self, one: &A) -> Result<Option<B>> {
        self.table.get((self.keys)(one)?).await
    }

    /// The other entities of several, in the order of `several`. 1 request per distinct key, several at once.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub async fn of_all(&self, several: &[A]) -> Result<Vec<Option<B>>>
    where
        B: Clone,
    {
        let keys = several
            .iter()
            .map(|one| (self.keys)(one))
            .collect::<Result<Vec<_>>>()?;
        self.table.get_many(keys).await
    }
}

impl<A, B: FromEntity> Relation<A, B, Many<B>> {
    /// A one-to-many relationship: `keys` computes the partition of the other entities and the prefix of their row keys.
    /// No request.
    pub fn many(
        table: Table<B>,
        keys: impl Fn(&A) -> Result<(PartitionOf<B>, Option<RowPrefix<B>>)> + Send + Sync + 'static,
    ) -> Self {
        Self {
            table,
            keys: Arc::new(keys),
        }
    }

    /// A query for the other entities, which the caller can narrow. No request.
    ///
    /// # Errors
    /// A part of the key that cannot be encoded.
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
        Self {
            table: self.table.clone(),
            keys: Arc::clone(&self.keys),
        }
    }
}

impl<A, B, K> fmt::Debug for Relation<A, B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relation")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// The key of an entity of type `T`, stored as a property of another entity.
///
/// The stored text is `PartitionKey/RowKey`; keys contain no `/`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_patterns::prelude::*;
/// use table_patterns::relationship::Link;
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// struct Photo {
///     #[partition_key]
///     album: String,
///     #[row_key]
///     number: u32,
///     caption: String,
/// }
///
/// #[derive(Clone, Debug, PartialEq, TableEntity)]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     #[row_key]
///     id: u32,
///     photo: Option<Link<Photo>>,
/// }
///
/// let db = Database::new(MemoryStore::new());
/// let (photos, employees) = (db.table::<Photo>("Photos")?, db.table::<Employee>("Employees")?);
/// photos.declare().await?;
/// employees.declare().await?;
/// let photo = Photo { album: "staff".into(), number: 7, caption: "Ken".into() };
/// photos.insert(&photo).await?;
/// let ken = Employee { department: "Sales".into(), id: 223, photo: Some(Link::to(&photo)?) };
/// employees.insert(&ken).await?;
///
/// let ken = employees.get_existing(Employee::key("Sales", 223)?).await?;
/// let link = ken.photo.expect("a link");
/// assert_eq!(link.follow(&photos).await?, Some(photo)); // 1 request
/// # Ok(())
/// # }
/// ```
pub struct Link<T> {
    key: Key,
    of: PhantomData<fn() -> T>,
}

impl<T> Link<T> {
    /// A link to the entity with this key, which need not exist.
    pub const fn new(key: Key) -> Self {
        Self {
            key,
            of: PhantomData,
        }
    }

    /// A link to an entity.
    ///
    /// # Errors
    /// A part of the entity's key that cannot be encoded.
    pub fn to(entity: &T) -> Result<Self>
    where
        T: TableEntity,
    {
        Ok(Self::new(entity.entity_key()?.into_key()))
    }

    /// The key of the entity.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Reads the entity; `None` if it does not exist. 1 request.
    ///
    /// # Errors
    /// Errors of the store; the entity is not a `T`.
    pub async fn follow(&self, table: &Table<T>) -> Result<Option<T>>
    where
        T: FromEntity,
    {
        table.get(&self.key).await
    }

    /// Reads the entities of several links, in the order of the links. 1 request per distinct key, several at once.
    ///
    /// # Errors
    /// As [`follow`](Self::follow).
    pub async fn follow_all<'a>(
        links: impl IntoIterator<Item = &'a Self>,
        table: &Table<T>,
    ) -> Result<Vec<Option<T>>>
    where
        T: FromEntity + Clone,
    {
        table
            .get_many(links.into_iter().map(|link| &link.key))
            .await
    }
}

impl<T> From<EntityKey<T>> for Link<T> {
    fn from(key: EntityKey<T>) -> Self {
        Self::new(key.into_key())
    }
}

impl<T> KeyOf<T> for &Link<T> {
    fn into_key(self) -> Key {
        self.key.clone()
    }
}

impl<T: 'static> Property for Link<T> {
    const TYPE: EdmType = EdmType::String;

    fn write(&self, sink: PropertySink<'_>) -> Result<(), ValueError> {
        sink.put(ValueRef::String(&self.to_string()));
        Ok(())
    }

    fn read(value: ValueRef<'_>) -> Result<Self, ValueError> {
        let ValueRef::String(text) = value else {
            return Err(ValueError::new(EdmType::String.name(), value.edm_type()));
        };
        // No key contains a slash, so the first one separates the two.
        let key = text
            .split_once('/')
            .and_then(|(partition, row)| Key::new(partition, row).ok());
        key.map(Self::new)
            .ok_or_else(|| ValueError::new("a link, PartitionKey/RowKey", format!("{text:?}")))
    }
}

/// `PartitionKey/RowKey`
impl<T> fmt::Display for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.key.partition(), self.key.row())
    }
}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({self})")
    }
}

impl<T> Clone for Link<T> {
    fn clone(&self) -> Self {
        Self::new(self.key.clone())
    }
}

impl<T> PartialEq for Link<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Link<T> {}
