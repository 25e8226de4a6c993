//! The registration of a type's layout before its first write.

use std::sync::Arc;

use futures_util::future::join_all;
use table_core::adapter::{Fault, FaultInjector, Faulty, Metered, RequestMeter};
use table_core::manifest::{Layout, Manifest};
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::store::Outcome;
use table_core::typed::PlainTable;

use crate::spread::SpreadTable;
use crate::wide::{WideEntities, WideTable};

const TABLE: &str = "Things";

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Thing")]
struct Plain {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Thing", wide)]
struct Wide {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Thing")]
struct Spread4 {
    #[partition_key(spread = 4)]
    p: String,
    #[row_key]
    r: u32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Thing")]
struct Spread8 {
    #[partition_key(spread = 8)]
    p: String,
    #[row_key]
    r: u32,
}

/// A type without a discriminator.
#[derive(Clone, Debug, PartialEq, TableEntity)]
struct Untold {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
}

/// A wide type without a discriminator.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(wide)]
struct UntoldWide {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
}

fn wide(r: u32) -> Wide {
    Wide { p: "p".into(), r }
}

struct Rig {
    store: Arc<dyn TableStore>,
    meter: RequestMeter,
    faults: FaultInjector,
}

impl Rig {
    /// A store with an empty table, whose manifest the process has not read.
    async fn new() -> Self {
        let memory = MemoryStore::new();
        let table = TableName::new(TABLE).unwrap();
        memory.create_table(&table).await.unwrap();
        memory.context().manifests().forget(&table);
        let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));
        let store = Metered::new(Faulty::new(memory, faults.clone()), meter.clone());
        Self {
            store: Arc::new(store),
            meter,
            faults,
        }
    }

    async fn layouts(&self) -> Vec<Layout> {
        let manifest = Manifest::load(&*self.store, &TableName::new(TABLE).unwrap())
            .await
            .unwrap();
        manifest
            .types
            .into_iter()
            .map(|stored| stored.layout)
            .collect()
    }
}

#[tokio::test]
async fn the_first_write_of_a_type_takes_three_requests_more() {
    let rig = Rig::new().await;
    let things = WideTable::<Wide>::new(rig.store.clone(), TABLE).unwrap();
    let (_, first) = rig.meter.measure(things.insert(&wide(1))).await;
    // The manifest, the type's row, the manifest again, and the entity.
    assert_eq!(first.total(), 4);
    let (_, second) = rig.meter.measure(things.insert(&wide(2))).await;
    assert_eq!(second.total(), 1);
    assert_eq!(rig.layouts().await, [Layout::Wide]);
}

#[tokio::test]
async fn concurrent_first_writes_register_one_layout() {
    let rig = Rig::new().await;
    let things = WideTable::<Wide>::new(rig.store.clone(), TABLE).unwrap();
    let others = SpreadTable::<Spread4>::new(rig.store.clone(), TABLE).unwrap();
    let writes = (0..8).map(|r| {
        let (things, others) = (things.clone(), others.clone());
        async move {
            match r % 2 {
                0 => things.insert(&wide(r)).await.map(|_| 0),
                _ => others
                    .insert(&Spread4 { p: "p".into(), r })
                    .await
                    .map(|_| 1),
            }
        }
    });
    let written: Vec<_> = join_all(writes).await;
    let layouts = rig.layouts().await;
    let winner = match &layouts[..] {
        [Layout::Wide] => 0,
        [Layout::Spread { .. }] => 1,
        other => panic!("{other:?}"),
    };
    for (r, written) in written.into_iter().enumerate() {
        match written {
            Ok(layout) => assert_eq!((layout, r % 2), (winner, winner), "the write of {r}"),
            Err(error) => {
                assert_ne!(r % 2, winner, "{error}");
                assert!(error.to_string().contains("is stored as"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_registration_without_an_answer_writes_no_entity() {
    for fault in [Fault::LoseRequest, Fault::LoseAnswer] {
        let rig = Rig::new().await;
        let things = WideTable::<Wide>::new(rig.store.clone(), TABLE).unwrap();
        // The first request reads the manifest, the second one writes the type's row.
        rig.faults.script([None, Some(fault)]);
        let error = things.insert(&wide(1)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotApplied, "{fault:?}");
        assert_eq!(
            things
                .get(Wide::key("p", 1u32).unwrap())
                .await
                .unwrap()
                .map(|read| read.r),
            None
        );
        things.insert(&wide(1)).await.unwrap();
        assert_eq!(rig.layouts().await, [Layout::Wide], "{fault:?}");
    }
}

#[tokio::test]
async fn other_buckets_need_the_previous_ones() {
    let rig = Rig::new().await;
    let before = SpreadTable::<Spread4>::new(rig.store.clone(), TABLE).unwrap();
    for r in 0..10 {
        before.insert(&Spread4 { p: "p".into(), r }).await.unwrap();
    }
    let after = SpreadTable::<Spread8>::new(rig.store.clone(), TABLE).unwrap();
    let thing = |r| Spread8 { p: "p".into(), r };
    let error = after.insert(&thing(10)).await.unwrap_err().to_string();
    assert!(error.contains("with_previous"), "{error}");
    let after = after.with_previous(4);
    after.insert(&thing(10)).await.unwrap();
    let Layout::Spread { buckets, .. } = rig.layouts().await[0] else {
        panic!()
    };
    assert_eq!(buckets, 8);
    let error = before
        .insert(&Spread4 {
            p: "p".into(),
            r: 11,
        })
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("8 buckets"), "{error}");
    after.migrate().await.unwrap();
    let all = SpreadTable::<Spread8>::new(rig.store.clone(), TABLE).unwrap();
    all.insert(&thing(11)).await.unwrap();
    let found = all
        .query()
        .partition(Spread8::partition("p").unwrap())
        .all()
        .await
        .unwrap();
    assert_eq!(found, (0..12).map(thing).collect::<Vec<_>>());
}

#[tokio::test]
async fn writes_that_show_the_type_of_another_layout() {
    let rig = Rig::new().await;
    let (things, table) = (
        WideTable::<Wide>::new(rig.store.clone(), TABLE).unwrap(),
        TABLE,
    );
    things.insert(&wide(1)).await.unwrap();
    let thing = Entity::new("p", "7").unwrap().with("EntityType", "Thing");
    let any = PlainTable::<Entity>::new(rig.store.clone(), table).unwrap();
    let mut group = any.group(PartitionKey::new("p").unwrap());
    group.push(Operation::Insert(thing.clone())).unwrap();
    let refused = [
        PlainTable::<Plain>::new(rig.store.clone(), table)
            .unwrap()
            .insert(&Plain {
                p: "p".into(),
                r: 7,
            })
            .await
            .err(),
        group.commit().await.err(),
    ];
    for error in refused {
        let error = error.expect("a refusal").to_string();
        assert!(error.contains("wide entities of several rows"), "{error}");
    }
    // Wide entities of any type, and rows of another type.
    let entities = WideEntities::new(rig.store.clone(), TABLE.parse().unwrap());
    entities.insert(&thing).await.unwrap();
    let other = Entity::new("p", "8").unwrap().with("EntityType", "Other");
    rig.store
        .write(&TABLE.parse().unwrap(), Operation::Insert(other))
        .await
        .unwrap();
}

/// Wide entities as the untyped handle writes them have no type of one row.
#[tokio::test]
async fn wide_entities_of_a_type_of_one_row() {
    let rig = Rig::new().await;
    let spread = SpreadTable::<Spread4>::new(rig.store.clone(), TABLE).unwrap();
    spread
        .insert(&Spread4 {
            p: "p".into(),
            r: 1,
        })
        .await
        .unwrap();
    let entities = WideEntities::new(rig.store.clone(), TABLE.parse().unwrap());
    let thing = Entity::new("p", "7").unwrap().with("EntityType", "Thing");
    let error = entities.insert(&thing).await.unwrap_err().to_string();
    assert!(error.contains("rows spread over 4 buckets"), "{error}");
}

#[tokio::test]
async fn types_without_discriminators_do_not_share_a_table_with_wide_ones() {
    let rig = Rig::new().await;
    let things = WideTable::<UntoldWide>::new(rig.store.clone(), TABLE).unwrap();
    things
        .insert(&UntoldWide {
            p: "p".into(),
            r: 1,
        })
        .await
        .unwrap();
    let plain = PlainTable::<Untold>::new(rig.store.clone(), TABLE).unwrap();
    let error = plain
        .insert(&Untold {
            p: "p".into(),
            r: 2,
        })
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("UntoldWide is stored as wide entities"),
        "{error}"
    );
    plain
        .ignoring_indexes()
        .insert(&Untold {
            p: "p".into(),
            r: 2,
        })
        .await
        .unwrap();
}
