//! What an examination finds, and what it reads.

use async_trait::async_trait;
use table_core::adapter::{Metered, RequestMeter};
use table_core::forward_to_store;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, PartitionKey};
use table_core::query::{Continuation, ReadablePage};
use table_core::store::{GroupTransaction, Operation, TableStoreExt as _};

use super::*;
use crate::index::{Index, Placement};

fn table() -> TableName {
    TableName::new("People").unwrap()
}

async fn filled(entities: impl IntoIterator<Item = Entity>) -> MemoryStore {
    let store = MemoryStore::new();
    store.create_table(&table()).await.unwrap();
    for entity in entities {
        store
            .write(&table(), Operation::Insert(entity))
            .await
            .unwrap();
    }
    store
}

async fn examined(store: &MemoryStore) -> TableExamination {
    let examination = Examination::new(store.clone(), table()).with_options(IndexOptions::local());
    examination
        .unfinished_after(Duration::ZERO)
        .run()
        .await
        .unwrap()
}

fn problems(found: &TableExamination) -> Vec<(Problem, &str, u64)> {
    found
        .findings
        .iter()
        .map(|found| (found.problem, &*found.subject, found.count))
        .collect()
}

fn person(row: &str) -> Entity {
    Entity::new("p", row).unwrap()
}

#[tokio::test]
async fn a_table_in_order_has_counts_and_no_findings() {
    let store = filled((0..5).map(|n| person(&n.to_string()).with("Age", n))).await;
    let meter = RequestMeter::new();
    let metered = Metered::new(store, meter.clone());
    let found = Examination::new(metered, table()).run().await.unwrap();
    assert_eq!(problems(&found), []);
    assert!(found.is_complete && !found.is_damaged());
    assert_eq!(
        (
            found.rows,
            found.entities,
            found.index_entries,
            found.system_rows
        ),
        (5, 5, 0, 0)
    );
    assert_eq!(found.partitions.largest[0].rows, 5);
    assert_eq!(found.partitions.by_rows, [(2, 0), (4, 0), (8, 1)]);
    assert_eq!(found.sizes.iter().map(|size| size.rows).sum::<u64>(), 5);
    assert_eq!(
        found
            .writes
            .intervals
            .iter()
            .map(|(_, rows)| rows)
            .sum::<u64>(),
        5
    );
    assert_eq!(
        meter.total(),
        1,
        "one page: the store knows the manifest of a table that it created"
    );
}

#[tokio::test]
async fn mixed_types_and_old_versions_are_found_in_each_type() {
    let typed = |row: &str, of: &str, version: i32| {
        person(row)
            .with("EntityType", of)
            .with("EntityVersion", version)
    };
    let store = filled([
        typed("1", "Ball", 2).with("Size", 1),
        typed("2", "Ball", 1).with("Size", 2),
        typed("3", "Ball", 2).with("Size", "large"),
        // Another type may have another type of property.
        typed("4", "Shoe", 1).with("Size", 42.5),
    ])
    .await;
    let found = examined(&store).await;
    assert_eq!(
        problems(&found),
        [
            (
                Problem::MixedTypes,
                "Size of Ball: Int32 in 2 rows, String in 1 rows",
                1
            ),
            (
                Problem::OldVersion,
                "Ball: version 1, and the latest is 2",
                1
            ),
        ]
    );
    assert_eq!(found.types["Ball"].versions, [(1, 1), (2, 2)].into());
    assert!(!found.is_damaged());
}

#[tokio::test]
async fn rows_near_limits_are_found() {
    let many = (0..202).fold(person("many"), |row, n| {
        row.with(format!("P{n}").as_str(), n)
    });
    let large = (0..14).fold(person("large"), |row, n| {
        row.with(format!("P{n}").as_str(), vec![0_u8; 64 * 1024])
    });
    let store = filled([
        person("1"),
        person("long").with("Text", "x".repeat(27_000)),
        many,
        large,
    ])
    .await;
    let found = examined(&store).await;
    let near: Vec<_> = problems(&found)
        .into_iter()
        .filter(|(problem, ..)| *problem == Problem::NearLimit)
        .collect();
    assert_eq!(near.len(), 3 + 14, "{near:?}");
    assert!(near.contains(&(
        Problem::NearLimit,
        "values of Text of 80 % of 64 KiB or more",
        1
    )));
    assert!(near.contains(&(
        Problem::NearLimit,
        "entities of 80 % of 1024 KiB or more",
        1
    )));
    assert!(near.contains(&(
        Problem::NearLimit,
        "entities with 80 % of 252 properties or more",
        1
    )));
}

#[tokio::test]
async fn a_partition_that_takes_most_writes_is_hot() {
    let store = filled([Entity::new("quiet", "1").unwrap()]).await;
    for n in 0..100 {
        let mut group = GroupTransaction::new(PartitionKey::new("busy").unwrap(), store.profile());
        for row in 0..100 {
            group
                .push(Operation::Insert(
                    Entity::new("busy", format!("{n}-{row}")).unwrap(),
                ))
                .unwrap();
        }
        store.transact(&table(), group).await.unwrap();
    }
    let found = examined(&store).await;
    let [hot] = &problems(&found)[..] else {
        panic!("{:?}", found.findings)
    };
    assert_eq!((hot.0, hot.2), (Problem::HotPartition, 10_000));
    assert!(hot.1.starts_with("\"busy\": "), "{}", hot.1);
    assert_eq!(found.partitions.largest[0].partition, "busy");
    assert_eq!(found.partitions.count, 2);
}

/// The header lists the property in one row; another program has written it in plaintext.
#[tokio::test]
async fn plaintext_of_a_property_that_is_encrypted_elsewhere_is_damage() {
    let store = filled([
        person("1")
            .with("Iban", vec![1_u8, 2])
            .with("Photo", vec![3_u8])
            .with("_EncryptionHeader", vec![0_u8]),
        person("2").with("Iban", "CH93").with("Photo", vec![3_u8]),
    ])
    .await;
    let examination = Examination::new(store, table());
    let named = examination.clone().with_encrypted_names(|row| {
        row.is_ciphertext()
            .then(|| "Iban".to_owned())
            .into_iter()
            .collect()
    });
    let found = named.run().await.unwrap();
    assert_eq!(problems(&found), [(Problem::Plaintext, "Iban", 1)]);
    assert_eq!(found.findings[0].examples, [Key::new("p", "2").unwrap()]);
    assert!(found.is_damaged());
}

#[tokio::test]
async fn damaged_indexes_are_found_in_a_sample_and_in_all_entries() {
    for placement in [
        Placement::OtherPartition,
        Placement::OtherTable(TableName::new("Entries").unwrap()),
    ] {
        let store = filled([]).await;
        store
            .create_table_if_missing(&TableName::new("Entries").unwrap())
            .await
            .unwrap();
        let index = Index::keyed("age", placement.clone(), "age_{Age}", "{RowKey}").unwrap();
        let options = IndexOptions::local();
        let people = IndexedEntities::open(
            store.clone().into_shared(),
            table(),
            vec![index.clone()],
            options,
        );
        let people = people.await.unwrap();
        for n in 0..5 {
            people
                .insert(person(&n.to_string()).with("Age", n))
                .await
                .unwrap();
        }
        people.flush().await;
        let sound = examined(&store).await;
        assert_eq!(problems(&sound), [], "{placement:?}");
        assert_eq!(
            (
                sound.compared[index.id()].entries,
                sound.compared[index.id()].entities
            ),
            (5, 5)
        );
        let entries = match placement {
            Placement::OtherPartition => table(),
            _ => TableName::new("Entries").unwrap(),
        };
        let rows = store.query_all(&entries, &Query::new()).await.unwrap();
        let rows: Vec<_> = rows.iter().filter(|row| row.is_index_entry()).collect();
        let (row, other) = (rows[3], rows[4].key().partition());
        store
            .write(&entries, Operation::Delete(row.key().clone(), IfMatch::Any))
            .await
            .unwrap();
        let moved = Entity::from_parts(
            Key::new(other, row.key().row()).unwrap(),
            row.properties().clone(),
        );
        store
            .write(&entries, Operation::Insert(moved))
            .await
            .unwrap();
        for which in [CompareEntries::Sampled(100), CompareEntries::All] {
            let examination = Examination::new(store.clone(), table()).with_entries(which);
            let found = examination
                .with_options(IndexOptions::local())
                .run()
                .await
                .unwrap();
            let subject = format!("the index {}", index.id());
            assert_eq!(
                problems(&found),
                [
                    (Problem::DanglingEntries, &*subject, 1),
                    (Problem::MissingEntries, &*subject, 1),
                ]
            );
        }
        let none = Examination::new(store.clone(), table())
            .with_entries(CompareEntries::None)
            .run()
            .await
            .unwrap();
        assert_eq!(problems(&none), []);
    }
}

/// The build has not come to the entities yet.
#[tokio::test]
async fn an_index_under_construction_is_no_damage() {
    for state in [
        IndexState::DeleteOnly,
        IndexState::WriteOnly,
        IndexState::Building,
    ] {
        let store = filled((0..5).map(|n| person(&n.to_string()).with("Age", n))).await;
        let index =
            Index::keyed("age", Placement::OtherPartition, "age_{Age}", "{RowKey}").unwrap();
        let row = StoredIndex::new(index.definition(), state)
            .to_entity()
            .unwrap();
        store.write(&table(), Operation::Insert(row)).await.unwrap();
        let examination =
            Examination::new(store.clone(), table()).with_entries(CompareEntries::All);
        let found = examination
            .with_options(IndexOptions::local())
            .run()
            .await
            .unwrap();
        let subject = format!(
            "the index {}, which is under construction: {state}",
            index.id()
        );
        assert_eq!(problems(&found), [(Problem::UnfinishedIndex, &*subject, 1)]);
        assert!(!found.is_damaged());
    }
}

#[tokio::test]
async fn unfinished_writes_and_poison_are_found() {
    let poison = Entity::new("work", "p_0000000000000000001_a")
        .unwrap()
        .with("Body", "x")
        .with("DequeueCount", 6)
        .with("Inserted", Ticks::now());
    let journal = journal_row("~~j_0123456789abcdef0123456789abcdef", 1000);
    let transaction = record(0, 0);
    let store = filled([poison, journal, transaction]).await;
    let found = examined(&store).await;
    assert_eq!(
        problems(&found),
        [
            (
                Problem::UnfinishedWrite,
                "rows of writes that were not finished",
                1
            ),
            (Problem::Poisoned, "eventual transactions", 1),
            (Problem::Poisoned, "messages of a queue in the table", 1),
        ]
    );
    // A young write may be in progress.
    let young = Examination::new(store, table()).run().await.unwrap();
    assert_eq!((young.unfinished, problems(&young).len()), (1, 2));
}

/// A store with a row that an earlier release has written: each row has its last property twice.
#[derive(Debug)]
struct Repeating(MemoryStore);

#[async_trait]
impl TableStore for Repeating {
    forward_to_store!(self => self.0;
        profile, create_table, delete_table, list_tables, get, write, transact, context);

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let mut page = self.0.query(table, query, from).await?.into_page()?;
        for row in &mut page.items {
            if let Some(last) = row.clone().properties().iter().last() {
                row.properties_mut().push(last.name(), last.value(), false);
            }
        }
        Ok(page.into())
    }
}

#[tokio::test]
async fn a_property_that_a_row_has_twice_is_named() {
    let store = filled([
        person("1").with("Name", "Ken").with("Age", 41),
        person("2"),
        person("3").with("Age", 7),
    ]);
    let found = Examination::new(Repeating(store.await), table())
        .run()
        .await
        .unwrap();
    assert_eq!(
        problems(&found),
        [(Problem::RepeatedProperty, "rows with 'Age' twice", 2)]
    );
    assert_eq!(
        found.findings[0].examples,
        [person("1").key().clone(), person("3").key().clone()]
    );
    assert!(found.is_damaged());
}

fn journal_row(row: &str, lease: i64) -> Entity {
    let journal = person(row)
        .with("JournalKind", "write")
        .with("JournalLease", lease);
    journal
        .with("JournalRows0", b"[]".as_slice())
        .with("JournalTouched0", b"[]".as_slice())
}

/// The record of a poisoned transaction of one step.
fn record(next: i32, pieces: i32) -> Entity {
    let record = Entity::new("~~t_0123456789abcdef0123456789abcdef", "head").unwrap();
    let record = record
        .with("TransactionState", "poisoned")
        .with("Steps", 1)
        .with("NextStep", next);
    record
        .with("Pieces", pieces)
        .with("StepFailures", 5)
        .with("PlanHash", 7_i64)
}

/// Rows of the library that no program of the library has written: planted numbers, damaged contents, other keys.
#[tokio::test]
async fn planted_rows_are_damage() {
    let feed = |row: &str| Entity::new("ann", row).unwrap();
    let reservation = Entity::new("kay", "")
        .unwrap()
        .with(Entry::INDEX, "name")
        .with("OwnerPending", true);
    let planted = [
        journal_row("~~j_0123456789abcdef0123456789abcdef", i64::MAX),
        journal_row("~~j_0123456789abcdef0123456789abcde0", -1),
        person("~~j_0123456789abcdef0123456789abcde1"),
        journal_row("~~j_zz", 1000),
        person("2").with("EntityMoveTo", "q"),
        reservation,
        feed("~~changes").with("Next", i64::MIN),
        feed("~~changes~9223372036854775807")
            .with("Kind", "updated")
            .with("Type", "Order")
            .with("Row", "1"),
        Entity::new("~~changes", "a")
            .unwrap()
            .with("Done", i64::MAX),
        record(1, 0),
    ];
    for row in planted {
        let key = row.key().clone();
        let found = examined(&filled([row]).await).await;
        let damaged: Vec<_> = found
            .findings
            .iter()
            .filter(|found| found.problem == Problem::DamagedRow)
            .collect();
        assert_eq!(damaged.len(), 1, "{key}: {:?}", found.findings);
        assert_eq!(damaged[0].examples, [key]);
        assert!(found.is_damaged());
    }
    let id = uuid::Uuid::nil();
    let sound = [
        feed("~~changes").with("Next", 2_i64).with("Feed", id),
        feed("~~changes~0000000000000000001")
            .with("Kind", "updated")
            .with("Type", "Order")
            .with("Row", "1"),
        Entity::new("~~changes", "a")
            .unwrap()
            .with("Done", 1_i64)
            .with("Feed", id),
    ];
    assert_eq!(problems(&examined(&filled(sound).await).await), []);
}

#[tokio::test]
async fn a_table_that_does_not_exist_is_an_error() {
    let error = Examination::new(MemoryStore::new(), table())
        .run()
        .await
        .unwrap_err();
    assert!(error.is_table_not_found());
}
