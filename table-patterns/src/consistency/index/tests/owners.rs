//! Owners of unique values: errors of refused writes and of committed writes.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::store::{Operation, Outcome, Result, TableStore, TableStoreExt};

use crate::index::{Entry, Index, IndexOptions, IndexedEntities, Payload, Placement};
use crate::journal::{Acknowledge, Entries};

fn table() -> TableName {
    TableName::new("Users").unwrap()
}

fn key(id: u32) -> Key {
    Key::new("d", format!("e_{id}")).unwrap()
}

fn entry() -> Key {
    Key::new("u_ken@x", "email").unwrap()
}

fn user(id: u32) -> Entity {
    Entity::from(key(id)).with("Age", 40).with("Email", "ken@x")
}

async fn open(acknowledge: Acknowledge) -> Result<(MemoryStore, IndexedEntities)> {
    let store = MemoryStore::new();
    store.create_table(&table()).await?;
    let index = Index::keyed("email", Placement::OtherPartition, "u_{Email}", "email")?;
    let index = index.unique_within_table().with_payload(Payload::Full);
    let options = IndexOptions {
        acknowledge,
        ..IndexOptions::local()
    };
    let users =
        IndexedEntities::open(Arc::new(store.clone()), table(), vec![index], options).await?;
    Ok((store, users))
}

async fn touch(users: &IndexedEntities, id: u32) -> Result<Entries> {
    let older = |old: Option<&Entity>| Ok(old.map(|old| old.clone().with("Age", 41)));
    Ok(users.modify(&key(id), older).await?.entries)
}

/// The entry of a deleted entity remains until the deletion is applied; the error of a refused write has the current owner.
#[tokio::test(start_paused = true)]
async fn a_removed_value_is_free_before_its_entry_is_removed() -> Result<()> {
    let (store, users) = open(Acknowledge::Committed).await?;
    users.insert(user(1)).await?;
    let refused = users.insert(user(2)).await.unwrap_err();
    assert!(
        refused.is_unique_violation() && refused.owner() == Some(&*key(1).to_string()),
        "{refused}"
    );
    users.delete(&users.get_existing(&key(1)).await?).await?;
    users.insert(user(2)).await?;
    let row = store.get_existing(&table(), &entry()).await?;
    assert_eq!(Entry::owner_of(&row)?, key(2));
    Ok(())
}

/// The protocol never produces this state, so the write fails with an error that has both entities.
#[tokio::test(start_paused = true)]
async fn the_error_of_a_write_whose_row_belongs_to_another_entity_has_both() -> Result<()> {
    let (store, users) = open(Acknowledge::Applied).await?;
    users.insert(user(1)).await?;
    let row = store.get_existing(&table(), &entry()).await?;
    store.write(&table(), Operation::Insert(user(2))).await?;
    let stolen = row.with_system(None, None).with(Entry::OWNER_ROW, "e_2");
    store
        .write(&table(), Operation::InsertOrReplace(stolen))
        .await?;
    let error = touch(&users, 1).await.unwrap_err();
    assert!(
        error.is_unique_violation() && error.outcome() == Outcome::Applied,
        "{error}"
    );
    assert!(
        error.to_string().contains("e_1") && error.owner() == Some(&*key(2).to_string()),
        "{error}"
    );
    assert_eq!(
        store.get_existing(&table(), &key(1)).await?.get("Age"),
        Some(ValueRef::Int32(41))
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_unique_row_is_reserved_again() -> Result<()> {
    let (store, users) = open(Acknowledge::Applied).await?;
    users.insert(user(1)).await?;
    store
        .write(
            &table(),
            Operation::Delete(entry(), table_core::model::IfMatch::Any),
        )
        .await?;
    assert_eq!(touch(&users, 1).await?, Entries::Applied);
    let row = store.get_existing(&table(), &entry()).await?;
    assert_eq!(row.get("OwnerPending"), Some(ValueRef::Boolean(false)));
    assert!(
        users
            .insert(user(2))
            .await
            .unwrap_err()
            .is_unique_violation()
    );
    Ok(())
}
