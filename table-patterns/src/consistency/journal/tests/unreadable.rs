//! Answers that say *applied* and cannot be read.

use object_store::memory::InMemory;
use table_core::store::Outcome;

use super::*;
use crate::index::{Index, IndexOptions, IndexedEntities, Placement};

fn by_city(placement: Placement) -> Index {
    let here = placement == Placement::SamePartition;
    Index::new("city", placement, "1", move |e| match e.get("City") {
        Some(ValueRef::String(city)) => {
            Key::new(if here { "p" } else { city }, format!("city_{city}")).map(Some)
        }
        _ => Ok(None),
    })
    .with_shape(Shape::Blob)
}

struct Listed {
    people: IndexedEntities,
    /// The same over a store with faults.
    unlucky: IndexedEntities,
    faults: FaultInjector,
}

async fn listed(placement: &Placement) -> Result<Listed> {
    let (store, faults) = (Arc::new(MemoryStore::new()), FaultInjector::new(1));
    for table in ["People", "ByCity"] {
        store.create_table(&TableName::new(table)?).await?;
    }
    let mut options = IndexOptions::local();
    options.blobs = Some(Arc::new(InMemory::new()));
    let (table, index) = (TableName::new("People")?, vec![by_city(placement.clone())]);
    let people =
        IndexedEntities::open(store.clone(), table.clone(), index.clone(), options.clone()).await?;
    people.insert(person("1", "ken", "oslo")?).await?;
    let faulty = Arc::new(Faulty::new(store, faults.clone()));
    let unlucky = IndexedEntities::open(faulty, table, index, options).await?;
    Ok(Listed {
        people,
        unlucky,
        faults,
    })
}

/// Whichever answer cannot be read: the blob that the list names exists, and no answer says *not applied*.
#[tokio::test(start_paused = true)]
async fn a_blob_of_a_list_survives_every_unreadable_answer() -> Result<()> {
    for placement in [
        Placement::SamePartition,
        Placement::OtherTable(TableName::new("ByCity")?),
    ] {
        let here = placement == Placement::SamePartition;
        for request in 1.. {
            let Listed {
                people,
                unlucky,
                faults,
            } = listed(&placement).await?;
            let before = faults.injected().len();
            faults.script((1..request).map(|_| None).chain([Some(Fault::BreakAnswer)]));
            let told = unlucky.insert(person("2", "kim", "oslo")?).await;
            if faults.injected().len() == before {
                assert!(request > 2, "{placement:?}");
                break;
            }
            faults.heal();
            let is_there = people.get(&Key::new("p", "2")?).await?.is_some();
            let case = format!("{placement:?}, answer {request}: {told:?}");
            assert_eq!(told.is_ok(), is_there, "{case}");
            people.journal().sweep(&[], Duration::ZERO).await?;
            let key = Key::new(if here { "p" } else { "oslo" }, "city_oslo")?;
            assert_eq!(
                people.list("city", &key).await?.len(),
                1 + usize::from(is_there),
                "{case}"
            );
        }
    }
    Ok(())
}

/// The write is committed; workers or a sweep apply its entries.
#[tokio::test(start_paused = true)]
async fn a_commit_with_an_unreadable_answer_is_a_commit() -> Result<()> {
    let (store, faults) = (Arc::new(MemoryStore::new()), FaultInjector::new(1));
    for table in ["People", "Names"] {
        store.create_table(&TableName::new(table)?).await?;
    }
    let faulty = Arc::new(Faulty::new(store.clone(), faults.clone()));
    let journal = Journal::new(faulty, TableName::new("People")?, Arc::new(People))
        .with_clearing(Clearing::BeforeAnswer);
    for fault in [
        OperationKind::Transact,
        OperationKind::Insert,
        OperationKind::Delete,
    ] {
        faults.add(FaultRule::new(Fault::BreakAnswer).on(fault));
        let id = fault.name();
        let written = journal
            .write(
                &[Change::insert(person(id, id, "oslo")?)],
                Acknowledge::Applied,
            )
            .await?;
        assert_eq!(written.written.len(), 1);
        let expected = if fault == OperationKind::Transact {
            Entries::Pending
        } else {
            Entries::Applied
        };
        assert_eq!(written.entries, expected, "{fault:?}");
        faults.heal();
    }
    assert_eq!(
        journal
            .sweep(&[TableName::new("Names")?], Duration::ZERO)
            .await?
            .applied,
        1
    );
    let taken = Change::insert(person("9", OperationKind::Transact.name(), "rome")?);
    let error = journal
        .write(&[taken], Acknowledge::Applied)
        .await
        .unwrap_err();
    assert!(
        error.is_unique_violation() && error.outcome() == Outcome::NotApplied,
        "{error}"
    );
    Ok(())
}
