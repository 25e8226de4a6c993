use std::fmt;
use std::marker::PhantomData;

use table_core::model::{EdmType, Key, ValueError, ValueRef};
use table_core::store::Result;
use table_core::typed::{EntityKey, FromEntity, KeyOf, Property, PropertySink, Table, TableEntity};

/// The key of an entity of type `T`, as a property of another: `PartitionKey/RowKey`, since no key holds a `/`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
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
/// let store = std::sync::Arc::new(MemoryStore::new());
/// let (photos, employees) =
///     (Table::<Photo>::new(store.clone(), "Photos")?, Table::<Employee>::new(store, "Employees")?);
/// photos.create_if_missing().await?;
/// employees.create_if_missing().await?;
/// let photo = Photo { album: "staff".into(), number: 7, caption: "Ken".into() };
/// photos.insert(&photo).await?;
/// let ken = Employee { department: "Sales".into(), id: 223, photo: Some(Link::to(&photo)?) };
/// employees.insert(&ken).await?;
///
/// let ken = employees.get_existing(Employee::key("Sales", 223)?).await?;
/// let link = ken.photo.expect("Ken has one");
/// assert_eq!(link.follow(&photos).await?, Some(photo)); // 1 request
/// # Ok(())
/// # }
/// ```
pub struct Link<T> {
    key: Key,
    of: PhantomData<fn() -> T>,
}

impl<T> Link<T> {
    /// A link to the entity with this key, which need not be there.
    pub const fn new(key: Key) -> Self {
        Self { key, of: PhantomData }
    }

    /// A link to an entity.
    ///
    /// # Errors
    /// A part of its key cannot be encoded.
    pub fn to(entity: &T) -> Result<Self>
    where
        T: TableEntity,
    {
        Ok(Self::new(entity.entity_key()?.into_key()))
    }

    /// The key.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The entity it leads to, if it is there. One request.
    ///
    /// # Errors
    /// The store's; it is not a `T`.
    pub async fn follow(&self, table: &Table<T>) -> Result<Option<T>>
    where
        T: FromEntity,
    {
        table.get(&self.key).await
    }

    /// The entities that links lead to, in their order. One request for each distinct key, several at once.
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
        table.get_many(links.into_iter().map(|link| &link.key)).await
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
        let key = text.split_once('/').and_then(|(partition, row)| Key::new(partition, row).ok());
        key.map(Self::new).ok_or_else(|| ValueError::new("a link, PartitionKey/RowKey", format!("{text:?}")))
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
