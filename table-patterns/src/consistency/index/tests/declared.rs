//! Declared indexes whose definitions conflict with definitions of other programs and types.

use crate::index::tests::open_table;
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::store::{Error, Operation, Result};

use crate::index::open::open_to_write;
use crate::index::states::set::EntityScope;
use crate::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};

macro_rules! person {
    ($name:ident, $age:ty) => {
        #[derive(Debug, TableEntity)]
        #[entity(type = "Person", rename_all = "PascalCase")]
        #[index(age, partition_key = "ages", row_key = "{age}_{city}_{id}")]
        struct $name {
            #[partition_key]
            city: String,
            #[row_key(format = "person_{}")]
            id: u32,
            age: $age,
        }
    };
}

macro_rules! padded {
    ($name:ident, $age:ty) => {
        #[derive(Debug, TableEntity)]
        #[entity(type = "Person", rename_all = "PascalCase")]
        #[index(age, partition_key = "ages", row_key = "{age:03}_{city}_{id}")]
        struct $name {
            #[partition_key]
            city: String,
            #[row_key(format = "person_{}")]
            id: u32,
            age: $age,
        }
    };
}

/// A key part of another Rust type with the same encoding.
#[derive(Clone, Debug, KeyPart, Property)]
struct Years(i32);

person!(Short, i32);
person!(Long, i64);
person!(Named, Years);
person!(Text, String);
padded!(Narrow, u32);
padded!(Wide, u64);

async fn reopens<A, B>() -> Result<()>
where
    A: table_core::typed::TableEntity,
    B: table_core::typed::TableEntity,
{
    let store = MemoryStore::new();
    open_table::<A>(store.clone(), "People", IndexOptions::local()).await?;
    let people = open_table::<B>(store, "People", IndexOptions::local()).await?;
    let name = &*B::SCHEMA.indexes[0].name;
    if people.entities().await?.state(name) == IndexState::Absent {
        people.entities().await?.build(name)?.run().await?;
    }
    Ok(())
}

/// The same template encodes another property type differently: lookups would miss existing entries.
#[tokio::test(start_paused = true)]
async fn a_changed_key_encoding_in_the_same_key_range_is_refused() -> Result<()> {
    for changed in [
        reopens::<Short, Long>().await,
        reopens::<Text, Short>().await,
    ] {
        let error = changed.unwrap_err().to_string();
        assert!(
            error.contains("another index") && error.contains("text that its keys start with"),
            "{error}"
        );
    }
    reopens::<Short, Named>().await?;
    reopens::<Narrow, Wide>().await
}

macro_rules! reachable {
    ($name:ident, $($entity:tt)*) => {
        #[derive(Debug, TableEntity)]
        #[entity($($entity)*, rename_all = "PascalCase")]
        #[index(email, row_key = "email_{email}", unique = "partition", payload = full)]
        struct $name {
            #[partition_key]
            department: String,
            #[row_key(format = "person_{:06}")]
            id: u32,
            email: String,
        }
    };
}

reachable!(Employee, type = "Employee");
reachable!(Contractor, type = "Contractor");
reachable!(Anybody, discriminator(row_prefix));

/// Each index would treat the entries of the other as its own: lookups would return them, and scrubs would delete them.
#[tokio::test(start_paused = true)]
async fn an_index_of_another_type_in_the_same_key_range_is_refused() -> Result<()> {
    let others = [
        reopens::<Employee, Contractor>().await,
        reopens::<Employee, Anybody>().await,
        reopens::<Anybody, Contractor>().await,
    ];
    for other in others {
        let error = other.unwrap_err().to_string();
        assert!(
            error.contains("'email'") && error.contains("another type"),
            "{error}"
        );
    }
    reopens::<Contractor, Contractor>().await
}

/// A table with rows in system partitions only is empty: the first program declares its indexes.
#[tokio::test(start_paused = true)]
async fn a_table_with_system_rows_is_empty() -> Result<()> {
    let (store, table) = (MemoryStore::new(), TableName::new("People")?);
    store.create_table(&table).await?;
    for partition in ["~~\u{E000}", "~~\u{FFFF}", "~~\u{10FFFF}x"] {
        store
            .write(&table, Operation::Insert(Entity::new(partition, "r")?))
            .await?;
    }
    let index = Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}")?;
    let people = IndexedEntities::open(store, table, vec![index], IndexOptions::local()).await?;
    assert_eq!(people.state("city"), IndexState::Readable);
    Ok(())
}

/// Indexes that the group of the declaration leaves out take no place in it.
#[tokio::test(start_paused = true)]
async fn indexes_of_other_types_take_no_place_in_the_declaration() -> Result<()> {
    let (store, table) = (MemoryStore::new().into_shared(), TableName::new("People")?);
    store.create_table(&table).await?;
    let options = IndexOptions::local;
    let open = |indexes, schema| {
        open_to_write(
            store.clone(),
            table.clone(),
            indexes,
            options(),
            EntityScope::Type(schema),
        )
    };
    open(Vec::new(), Contractor::SCHEMA).await?;
    let of = |name: &str, of: &str| {
        let index = Index::keyed(
            name,
            Placement::SamePartition,
            "",
            &format!("{name}_{{RowKey}}"),
        );
        Ok::<_, Error>(index?.with_discriminator("EntityType", of))
    };
    let mut indexes = (0..99)
        .map(|n| of(&format!("other{n:02}"), "Other"))
        .collect::<Result<Vec<_>>>()?;
    indexes.push(of("own", "Person")?);
    let people = open(indexes, Short::SCHEMA).await?;
    assert_eq!(people.state("other00"), IndexState::Absent);
    assert_eq!(people.state("own"), IndexState::Readable);
    Ok(())
}
