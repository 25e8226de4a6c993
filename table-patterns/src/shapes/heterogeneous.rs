//! Heterogeneous entity types: several types in one table, read and changed without knowing which.
//!
//! # Problem
//! Entities that are written or read together are in one partition, whatever their types. A program must distinguish the
//! types, must not change entities of unknown types by mistake, and sometimes changes one property of any type.
//!
//! # Key layout
//! None of its own. The discriminator of a type is the property `EntityType`, or a prefix of a key. An enum with
//! `#[derive(EntityResolver)]` reads types that are known at compile time; a [`Resolver`] is built at run time, from
//! closures.
//!
//! # Guarantees
//! - A row of an unknown type is an error, or goes to the closure of [`Resolver::other`]; it never becomes a struct of
//!   default values. Queries omit index entries, so these are not rows of unknown types.
//! - [`modify`] writes only the properties that the closure returns, under the ETag that was read.
//!
//! # Failure windows
//! None: a change is 1 request.
//!
//! # Cost in requests
//! Reading: the requests of the query. [`modify`]: 2, and 2 per conflict.
//!
//! # Limits, and when not to use it
//! [`modify`] refuses an entity that an index covers, because its index entry would become stale: change such entities
//! through [`Table`](crate::Table). Store types that are never read together in separate tables.

use std::collections::HashMap;
use std::fmt;

use futures_util::future::try_join;
use futures_util::{Stream, StreamExt};
use table_core::manifest::WriteTarget;
use table_core::model::{Entity, Key, Properties, TableName, ValueRef};
use table_core::store::{Conflicts, Error, Operation, PlainWrite, Result, TableStore};
use table_core::typed::{Schema, TableEntity, TableQuery};

use crate::Table;

/// Converts an entity to an `R`.
type Convert<R> = Box<dyn Fn(Entity) -> Result<R> + Send + Sync>;

/// Converts an entity to an `R`, by the type name in one of its properties.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_patterns::prelude::*;
/// use table_patterns::heterogeneous::Resolver;
///
/// let people = Database::new(MemoryStore::new()).view::<Entity>("People")?;
/// people.store().create_table(people.name()).await?;
/// let ken = Entity::new("Sales", "1")?.with("EntityType", "Employee").with("Name", "Ken");
/// people.store().write(people.name(), Operation::Insert(ken)).await?;
///
/// let names = Resolver::new()
///     .on("Employee", |entity| match entity.get("Name") {
///         Some(ValueRef::String(name)) => Ok(name.to_owned()),
///         _ => Ok("nameless".to_owned()),
///     })
///     .other(|entity| Ok(format!("something at {}", entity.key())));
/// assert_eq!(names.all(&people.query()).await?, ["Ken"]);
/// # Ok(())
/// # }
/// ```
pub struct Resolver<R> {
    property: String,
    types: HashMap<String, Convert<R>>,
    other: Option<Convert<R>>,
}

impl<R> Default for Resolver<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> fmt::Debug for Resolver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("property", &self.property)
            .field("types", &self.types.keys())
            .field("other", &self.other.is_some())
            .finish()
    }
}

impl<R> Resolver<R> {
    /// A resolver without types. The property `EntityType` holds the type name.
    pub fn new() -> Self {
        Self {
            property: Schema::TYPE_PROPERTY.to_owned(),
            types: HashMap::new(),
            other: None,
        }
    }

    /// Sets the property that holds the type name, for tables of programs that use another one.
    ///
    /// ```
    /// # use table_patterns::heterogeneous::Resolver;
    /// let kinds = Resolver::<String>::new()
    ///     .discriminated_by("Kind")
    ///     .other(|entity| Ok(entity.key().to_string()));
    /// ```
    #[must_use]
    pub fn discriminated_by(mut self, property: &str) -> Self {
        property.clone_into(&mut self.property);
        self
    }

    /// Adds a type by its name: `convert` is called for its entities.
    #[must_use]
    pub fn on(
        mut self,
        name: &str,
        convert: impl Fn(Entity) -> Result<R> + Send + Sync + 'static,
    ) -> Self {
        self.types.insert(name.to_owned(), Box::new(convert));
        self
    }

    /// Adds a derived type by its type name.
    #[must_use]
    pub fn on_type<T: TableEntity>(self, make: impl Fn(T) -> R + Send + Sync + 'static) -> Self {
        self.on(T::SCHEMA.type_name, move |entity| {
            T::from_entity(entity).map(&make)
        })
    }

    /// Sets the conversion of entities of unknown types. Without it, they are errors.
    #[must_use]
    pub fn other(mut self, convert: impl Fn(Entity) -> Result<R> + Send + Sync + 'static) -> Self {
        self.other = Some(Box::new(convert));
        self
    }

    /// Converts one entity. No request.
    ///
    /// # Errors
    /// An unknown type; an error of the closure.
    pub fn resolve(&self, entity: Entity) -> Result<R> {
        let name = match entity.get(&self.property) {
            Some(ValueRef::String(name)) => Some(name),
            _ => None,
        };
        match name
            .and_then(|name| self.types.get(name))
            .or(self.other.as_ref())
        {
            Some(convert) => convert(entity),
            None => Err(self.unknown_type(&entity, name)),
        }
    }

    /// Converts the results of a query, as a stream. 1 request per page.
    ///
    /// # Errors
    /// Errors of the store and of [`resolve`](Self::resolve), as items.
    pub fn stream(&self, query: &TableQuery<Entity>) -> impl Stream<Item = Result<R>> + Send {
        query
            .stream()
            .map(|entity| entity.and_then(|entity| self.resolve(entity)))
    }

    /// Converts all results of a query. 1 request per page.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn all(&self, query: &TableQuery<Entity>) -> Result<Vec<R>> {
        query
            .all()
            .await?
            .into_iter()
            .map(|entity| self.resolve(entity))
            .collect()
    }

    fn unknown_type(&self, entity: &Entity, name: Option<&str>) -> Error {
        let mut known: Vec<_> = self.types.keys().map(String::as_str).collect();
        known.sort_unstable();
        let found = name.map_or_else(|| "no type".to_owned(), |name| format!("{name:?}"));
        let expected = format!("one of {}", known.join(", "));
        Error::decode("resolver", entity.key(), &self.property, expected, found)
    }
}

/// Changes some properties of an entity of any type.
///
/// Reads the entity, calls `change` for the properties to set, and merges them in the version that was read; after a
/// conflict, starts again. Other properties stay, and a property that was marked for encryption stays marked. Returns the
/// properties that were set. If `change` returns none, nothing is written.
///
/// 2 requests, and 2 per conflict; the [manifest](Table#cost) as for other writes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_patterns::prelude::*;
/// use table_core::Error;
/// use table_patterns::heterogeneous::modify;
///
/// let table = Database::new(MemoryStore::new()).view::<Entity>("Company")?;
/// table.store().create_table(table.name()).await?;
/// let sales = Entity::new("Sales", "department")?.with("EmployeeCount", 7).with("Budget", 1_000);
/// table.store().write(table.name(), Operation::Insert(sales.clone())).await?;
///
/// modify(&table, sales.key(), |entity| match entity.get("EmployeeCount") {
///     Some(ValueRef::Int32(count)) => {
///         let mut set = Properties::new();
///         set.set("EmployeeCount", count + 1);
///         Ok(set)
///     }
///     _ => Err(Error::application("the entity has no EmployeeCount")),
/// })
/// .await?;
/// let read = table.get_existing(sales.key()).await?;
/// assert_eq!(read.get("EmployeeCount"), Some(ValueRef::Int32(8)));
/// assert_eq!(read.get("Budget"), Some(ValueRef::Int32(1_000)));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Entity not found; an index covers the entity (see [`Table::ignoring_indexes`]); the error of `change`, with nothing written;
/// precondition failed, after the last of 10 attempts; errors of the store.
pub async fn modify<T>(
    table: &Table<T>,
    key: &Key,
    mut change: impl FnMut(&Entity) -> Result<Properties>,
) -> Result<Properties> {
    let (store, name, plain) = (table.store(), table.name(), table.plain());
    let mut conflicts = Conflicts::new(Conflicts::ATTEMPTS);
    // Permission and row are read at the same time, because the permission does not depend on the row.
    let (mut permission, mut read) =
        try_join(plain.plain_write(), store.get(name, key, None)).await?;
    loop {
        let entity = read.ok_or_else(|| Error::entity_not_found(name, key))?;
        let mut set = change(&entity)?;
        keep_marks(&mut set, entity.properties());
        if set.is_empty() {
            return Ok(set);
        }
        if let Some(permission) = &permission {
            check_plain(permission, name, &entity, &set)?;
        }
        let merge = Operation::Merge(
            Entity::from_parts(key.clone(), set.clone()),
            entity.version()?,
        );
        match store.write(name, merge).await {
            Err(error) => conflicts.wait(error).await?,
            Ok(_) => return Ok(set),
        }
        (permission, read) = try_join(plain.plain_write(), store.get(name, key, None)).await?;
    }
}

/// Refuses the change if an index covers the entity before or after it.
fn check_plain(
    permission: &PlainWrite,
    table: &TableName,
    entity: &Entity,
    set: &Properties,
) -> Result<()> {
    let mut changed = entity.clone();
    set.iter().for_each(|property| {
        changed
            .properties_mut()
            .set(property.name(), property.value().to_owned());
    });
    // Both: the change may take the entity out of an index, or bring it into one.
    [entity, &changed].into_iter().try_for_each(|entity| {
        let advice = "change it through `Table`, or through `Table::ignoring_indexes`";
        permission
            .manifest()
            .check_plain(table, WriteTarget::Entity(entity), "a change", advice)
    })
}

/// Marks each new value whose old value is marked.
fn keep_marks(set: &mut Properties, old: &Properties) {
    let marked = set
        .iter()
        .filter(|p| old.find(p.name()).is_some_and(|old| old.is_encrypted()));
    let marked: Vec<_> = marked
        .map(|p| (p.name().to_owned(), p.value().to_owned()))
        .collect();
    marked
        .into_iter()
        .for_each(|(name, value)| set.set_encrypted(&name, value));
}
