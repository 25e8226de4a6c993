//! Declared indexes whose fields have changed.

use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::store::Result;

use crate::index::{IndexOptions, IndexState, IndexedTable};

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

/// The years that somebody has lived.
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
    A: table_core::typed::IndexedEntity,
    B: table_core::typed::IndexedEntity,
{
    let store = MemoryStore::new();
    IndexedTable::<A>::open(store.clone(), "People", IndexOptions::local()).await?;
    let people = IndexedTable::<B>::open(store, "People", IndexOptions::local()).await?;
    let name = &*B::SCHEMA.indexes[0].name;
    if people.entities().state(name) == IndexState::Absent {
        people.entities().build(name)?.run().await?;
    }
    Ok(())
}

/// The same template writes other keys for another type: lookups would miss the entries that are there.
#[tokio::test(start_paused = true)]
async fn are_refused_where_their_keys_are_written_otherwise() -> Result<()> {
    for changed in [reopens::<Short, Long>().await, reopens::<Text, Short>().await] {
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

/// Each would take the entries of the other for its own: give out its entities, and scrub them away.
#[tokio::test(start_paused = true)]
async fn are_refused_where_another_type_has_one_in_the_same_words() -> Result<()> {
    let others = [
        reopens::<Employee, Contractor>().await,
        reopens::<Employee, Anybody>().await,
        reopens::<Anybody, Contractor>().await,
    ];
    for other in others {
        let error = other.unwrap_err().to_string();
        assert!(error.contains("'email'") && error.contains("another type"), "{error}");
    }
    reopens::<Contractor, Contractor>().await
}
