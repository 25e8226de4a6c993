//! Unique indexes that are not readable: no process can decide which entity has a value.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Duplicate, Error, ErrorKind, Operation, Outcome, Result, TableStore};
use tokio::time::Instant;

use crate::index::{Index, IndexOptions, IndexState, IndexedEntities, Payload, Placement, Trust};

fn table() -> TableName {
    TableName::new("Users").unwrap()
}

fn key(id: u32) -> Key {
    Key::new("d", format!("e_{id}")).unwrap()
}

fn user(id: u32, email: &str) -> Entity {
    Entity::from(key(id)).with("Age", 40).with("Email", email)
}

/// By address, with remote and with local entries.
fn indexes() -> Result<[Index; 2]> {
    let elsewhere = Index::keyed("email", Placement::OtherPartition, "u_{Email}", "email")?;
    let beside = Index::keyed("email", Placement::SamePartition, "", "u_{Email}")?;
    let full = |index: Index| index.with_payload(Payload::Full);
    Ok([
        full(elsewhere.unique_within_table()),
        full(beside.unique_within_partition()),
    ])
}

async fn open(store: &MemoryStore, index: &Index) -> Result<IndexedEntities> {
    IndexedEntities::open(
        Arc::new(store.clone()),
        table(),
        vec![index.clone()],
        IndexOptions::local(),
    )
    .await
}

/// A table in which entities were written before the index was declared.
async fn written(values: &[(u32, &str)]) -> Result<MemoryStore> {
    let store = MemoryStore::new();
    store.create_table(&table()).await?;
    for (id, email) in values {
        store
            .write(&table(), Operation::Insert(user(*id, email)))
            .await?;
    }
    Ok(store)
}

fn is_refused(error: &Error, state: IndexState) -> bool {
    let text = error.to_string();
    error.outcome() == Outcome::NotApplied
        && text.contains(&format!("is {state}"))
        && text.contains("email")
}

async fn touch(users: &IndexedEntities, id: u32) -> Result<()> {
    users
        .modify(&key(id), |old| {
            Ok(old.map(|old| old.clone().with("Age", 41)))
        })
        .await
        .map(drop)
}

#[tokio::test(start_paused = true)]
async fn an_unready_unique_index_refuses_new_values() -> Result<()> {
    for index in indexes()? {
        let store = written(&[(1, "ken@x"), (2, "ken@x"), (3, "kim@x")]).await?;
        let users = open(&store, &index).await?;
        assert_eq!(users.state("email"), IndexState::Absent);
        for email in ["ken@x", "new@x"] {
            let error = users.insert(user(4, email)).await.unwrap_err();
            assert!(is_refused(&error, IndexState::Absent), "{error}");
            assert!(users.get(&key(4)).await?.is_none());
        }
        let other = |old: Option<&Entity>| Ok(old.map(|old| old.clone().with("Email", "kai@x")));
        assert!(is_refused(
            &users.modify(&key(3), other).await.unwrap_err(),
            IndexState::Absent
        ));
        // An entity keeps or loses its value, whichever other entity has the same value.
        for id in 1..=3 {
            touch(&users, id).await?;
        }
        users.delete(&users.get_existing(&key(3)).await?).await?;
        users.insert(Entity::from(key(5)).with("Age", 1)).await?;
    }
    Ok(())
}

/// The error lists every duplicate with both owners; a later build without duplicates succeeds.
#[tokio::test(start_paused = true)]
async fn a_build_over_duplicates_fails_and_lists_all_of_them() -> Result<()> {
    for index in indexes()? {
        let values = [(1, "a"), (2, "b"), (3, "a"), (4, "c"), (5, "a"), (6, "b")];
        let store = written(&values).await?;
        let users = open(&store, &index).await?;
        for _ in 0..2 {
            let error = users.build("email")?.run().await.unwrap_err();
            let ErrorKind::DuplicateValues { index, duplicates } = error.kind() else {
                panic!("{error}")
            };
            assert_eq!(index, "email");
            let pair = |d: &Duplicate| (d.owner.clone(), d.other.clone());
            let found: BTreeSet<_> = duplicates.iter().map(pair).collect();
            let wanted =
                [(1, 3), (1, 5), (2, 6)].map(|(a, b)| (key(a).to_string(), key(b).to_string()));
            assert_eq!(found, BTreeSet::from(wanted), "{error}");
            assert_eq!(duplicates.len(), 3, "{error}");
            assert!(error.to_string().contains("e_6"), "{error}");
        }
        assert_eq!(users.state("email"), IndexState::Building);
        let error = users.insert(user(7, "d")).await.unwrap_err();
        assert!(is_refused(&error, IndexState::Building), "{error}");
        for id in 1..=6 {
            touch(&users, id).await?;
        }
        // Delete one entity that has the row, and entities that have not.
        for id in [1, 3, 6] {
            users.delete(&users.get_existing(&key(id)).await?).await?;
        }
        users.build("email")?.run().await?;
        assert_eq!(users.state("email"), IndexState::Readable);
        for (id, email) in [(5, "a"), (2, "b"), (4, "c")] {
            let at = index
                .entries(&table(), &user(id, email))?
                .remove(0)
                .location
                .key;
            let found = users.find("email", &at, Trust::Entity).await?.unwrap();
            assert_eq!(*found.key(), key(id));
            assert!(
                users
                    .insert(user(8, email))
                    .await
                    .unwrap_err()
                    .is_unique_violation()
            );
        }
        users.insert(user(7, "d")).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_admits_no_duplicates() -> Result<()> {
    for index in indexes()? {
        let store = written(&[]).await?;
        let users = open(&store, &index).await?;
        let other = open(&store, &index).await?;
        users.insert(user(1, "ken@x")).await?;
        let build = users.rebuild("email").await?;
        for users in [&users, &other] {
            let error = users.insert(user(2, "ken@x")).await.unwrap_err();
            assert!(is_refused(&error, IndexState::Absent), "{error}");
        }
        build.run().await?;
        assert!(
            other
                .insert(user(2, "ken@x"))
                .await
                .unwrap_err()
                .is_unique_violation()
        );
        other.insert(user(2, "kim@x")).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_unique_index_cannot_be_built_later() -> Result<()> {
    for index in indexes()? {
        let store = written(&[]).await?;
        let options = IndexOptions {
            built_later: vec!["email".to_owned()],
            ..IndexOptions::local()
        };
        let opened = IndexedEntities::open(Arc::new(store), table(), vec![index], options).await;
        assert!(opened.unwrap_err().to_string().contains("built_later"));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_build_of_a_readable_index_returns_at_once() -> Result<()> {
    let [index, _] = indexes()?;
    let store = written(&[]).await?;
    let users = open(&store, &index).await?;
    let began = Instant::now();
    let progress = users.build("email")?.run().await?;
    assert_eq!(progress.state, IndexState::Readable);
    assert_eq!(progress.entities, 0);
    assert_eq!(began.elapsed(), Duration::ZERO);
    Ok(())
}
