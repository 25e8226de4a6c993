//! Heterogeneous entity types: several types in one table, read and changed without knowing which.
//!
//! # Problem
//! Entities that are written together, or read together, are in one partition, whatever their types. A program must tell
//! them apart, leave alone what it does not know, and sometimes change a property of any of them.
//!
//! # Layout
//! Each type is told by its discriminator: the property `EntityType`, or the start of a key. An enum with
//! `#[derive(EntityResolver)]` reads all of them, known at compile time; a [`Resolver`] is
//! put together at run time, from closures.
//!
//! # Guarantees
//! A row of an unknown type is an error, or what `other` makes of it: never a struct of defaults. Index entries are no rows of
//! unknown types: queries leave them out. [`modify`] writes
//! the properties that it was given and nothing else, under the ETag that it read.
//!
//! # Failure windows
//! None: a change is one request.
//!
//! # Cost in requests
//! Reading: those of the query. [`modify`]: 2, and 2 more for each conflict.
//!
//! # When not to use it
//! [`modify`] refuses an entity that an index is of, whose entry would go stale: change such entities through
//! [`IndexedTable`](crate::index::IndexedTable). Types that are never read together are
//! better off in tables of their own.

use std::collections::HashMap;
use std::fmt;

use futures_util::future::try_join;
use futures_util::{Stream, StreamExt};
use table_core::manifest::Touched;
use table_core::model::{Entity, Key, Properties, TableName, ValueRef};
use table_core::store::{Error, ErrorKind, Operation, PlainWrite, Result, TableStore};
use table_core::typed::{Schema, Table, TableEntity, TableQuery};

use crate::rows::conflict::{ATTEMPTS, Conflicts, version_of};

type Read<R> = Box<dyn Fn(Entity) -> Result<R> + Send + Sync>;

/// Makes an `R` of an entity, by the type that a property names.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
/// use table_patterns::heterogeneous::Resolver;
///
/// let people = Table::<Entity>::new(MemoryStore::new(), "People")?;
/// people.create_if_missing().await?;
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
    types: HashMap<String, Read<R>>,
    other: Option<Read<R>>,
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
    /// Knows no type yet. The property `EntityType` tells them.
    pub fn new() -> Self {
        Self { property: Schema::TYPE_PROPERTY.to_owned(), types: HashMap::new(), other: None }
    }

    /// Another property tells the types.
    #[must_use]
    pub fn told_by(mut self, property: &str) -> Self {
        property.clone_into(&mut self.property);
        self
    }

    /// What to make of a type.
    #[must_use]
    pub fn on(mut self, name: &str, read: impl Fn(Entity) -> Result<R> + Send + Sync + 'static) -> Self {
        self.types.insert(name.to_owned(), Box::new(read));
        self
    }

    /// What to make of a derived type, by its name.
    #[must_use]
    pub fn on_type<T: TableEntity>(self, make: impl Fn(T) -> R + Send + Sync + 'static) -> Self {
        self.on(T::SCHEMA.type_name, move |entity| T::from_entity(entity).map(&make))
    }

    /// What to make of everything else, which is an error otherwise.
    #[must_use]
    pub fn other(mut self, read: impl Fn(Entity) -> Result<R> + Send + Sync + 'static) -> Self {
        self.other = Some(Box::new(read));
        self
    }

    /// Makes one.
    ///
    /// # Errors
    /// The type is unknown; the closure's.
    pub fn resolve(&self, entity: Entity) -> Result<R> {
        let name = match entity.get(&self.property) {
            Some(ValueRef::String(name)) => Some(name),
            _ => None,
        };
        match name.and_then(|name| self.types.get(name)).or(self.other.as_ref()) {
            Some(read) => read(entity),
            None => Err(self.unknown(&entity, name)),
        }
    }

    /// The results of a query, one after another. One request a page.
    ///
    /// # Errors
    /// The store's and those of [`resolve`](Self::resolve), in the stream.
    pub fn stream(&self, query: &TableQuery<Entity>) -> impl Stream<Item = Result<R>> + Send {
        query.stream().map(|entity| entity.and_then(|entity| self.resolve(entity)))
    }

    /// All results of a query. One request a page.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub async fn all(&self, query: &TableQuery<Entity>) -> Result<Vec<R>> {
        query.all().await?.into_iter().map(|entity| self.resolve(entity)).collect()
    }

    fn unknown(&self, entity: &Entity, name: Option<&str>) -> Error {
        let mut known: Vec<_> = self.types.keys().map(String::as_str).collect();
        known.sort_unstable();
        let found = name.map_or_else(|| "no type".to_owned(), |name| format!("{name:?}"));
        let expected = format!("one of {}", known.join(", "));
        Error::decode("resolver", entity.key(), &self.property, expected, found)
    }
}

/// Changes an entity without knowing its type: reads it, lets `change` look at its properties and say which to set, and
/// merges those in the version that was read; from the start if another writer was quicker. Other properties stay as
/// they are, of whatever type the entity is, and what was marked for encryption stays marked. What was set; empty if `change` set nothing, and then nothing is written.
///
/// Two requests, and two more for each conflict; beside them that of writes for the [manifest](Table#cost).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use table_core::prelude::*;
/// use table_core::Error;
/// use table_patterns::heterogeneous::modify;
///
/// let table = Table::<Entity>::new(MemoryStore::new(), "Company")?;
/// table.create_if_missing().await?;
/// let sales = Entity::new("Sales", "department")?.with("EmployeeCount", 7).with("Budget", 1_000);
/// table.store().write(table.name(), Operation::Insert(sales.clone())).await?;
///
/// modify(&table, sales.key(), |entity| match entity.get("EmployeeCount") {
///     Some(ValueRef::Int32(count)) => {
///         let mut set = Properties::new();
///         set.set("EmployeeCount", count + 1);
///         Ok(set)
///     }
///     _ => Err(Error::invalid_request("this entity counts no employees")),
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
/// Entity not found; an index is of the entity (see [`Table::unmanaged`]); of `change`, with nothing written; precondition failed, after the last of
/// ten attempts; the store's.
pub async fn modify<T>(
    table: &Table<T>,
    key: &Key,
    mut change: impl FnMut(&Entity) -> Result<Properties>,
) -> Result<Properties> {
    let (store, name) = (table.store(), table.name());
    let mut conflicts = Conflicts::new(ATTEMPTS);
    let (mut rests_on, mut read) = try_join(table.plain_write(), store.get(name, key, None)).await?;
    loop {
        let entity = read.ok_or_else(|| missing(table, key))?;
        let mut set = change(&entity)?;
        keep_marks(&mut set, entity.properties());
        if set.is_empty() {
            return Ok(set);
        }
        if let Some(rests_on) = &rests_on {
            check_plain(rests_on, name, &entity, &set)?;
        }
        let merge = Operation::Merge(Entity::from_parts(key.clone(), set.clone()), version_of(&entity)?);
        match store.write(name, merge).await {
            Err(error) => conflicts.wait(error).await?,
            Ok(_) => return Ok(set),
        }
        (rests_on, read) = try_join(table.plain_write(), store.get(name, key, None)).await?;
    }
}

/// Refuses to change what an index is of, or to make it that.
fn check_plain(rests_on: &PlainWrite, table: &TableName, entity: &Entity, set: &Properties) -> Result<()> {
    let mut changed = entity.clone();
    set.iter()
        .for_each(|property| changed.properties_mut().set(property.name(), property.value().to_owned()));
    [entity, &changed].into_iter().try_for_each(|entity| {
        let instead = "change it through `IndexedTable`, or ask for it by `unmanaged()`";
        rests_on.manifest().check_plain(table, Touched::Entity(entity), "a change", instead)
    })
}

/// Marks what is set in place of something marked.
fn keep_marks(set: &mut Properties, old: &Properties) {
    let marked = set.iter().filter(|p| old.find(p.name()).is_some_and(|old| old.is_encrypted()));
    let marked: Vec<_> = marked.map(|p| (p.name().to_owned(), p.value().to_owned())).collect();
    marked.into_iter().for_each(|(name, value)| set.set_encrypted(&name, value));
}

fn missing<T>(table: &Table<T>, key: &Key) -> Error {
    ErrorKind::EntityNotFound { table: table.name().to_string(), key: key.to_string() }.into()
}
