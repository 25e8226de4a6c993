//! Rules of the store and the data that other patterns derive: messages, blobs, rows with other keys, tables
//! with other names.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::{TryStreamExt as _, stream};
use object_store::ObjectStore as _;
use object_store::memory::InMemory;
use table_core::model::{Entity, IfMatch, Ticks};
use table_core::prelude::*;
use table_core::query::Query;
use table_core::store::TableStore;
use table_patterns::Database;
use table_patterns::eventual::{Coordinator, EventualTransaction, Resources, Step};
use table_patterns::journal::Acknowledge;
use table_patterns::large::LargeOptions;
use table_patterns::queue::TableQueue;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::{WideEntities, WideTable};

use super::{TableViews, assert_hidden, key, text};
use crate::Harness;

fn refused<T: Debug>(result: table_core::Result<T>, because: &str) {
    let error = result.expect_err("it would be shown");
    assert!(error.to_string().contains(because), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    assert!(!error.is_ambiguous());
}

/// A table whose entities have no marks. One rule encrypts a property of employees, another rule encrypts
/// `Iban` everywhere.
async fn ruled(harness: &Harness) -> TableViews {
    let employees = |_: &str, row: &str, _: &str| row.starts_with("emp");
    TableViews::with(harness, |b, t| {
        b.encrypt(t, ["Iban"])
            .encrypt_where(t, ["Secret"], employees)
    })
    .await
}

/// A plan is plaintext in a message or in rows of the coordinator. A plan with values that a rule encrypts is
/// refused before it is written.
pub(crate) async fn plans_with_encrypted_values_are_refused(harness: &Harness) {
    let people = ruled(harness).await;
    let (transactions, messages) = (harness.table().await, harness.table().await);
    let queue = TableQueue::open(
        Arc::clone(messages.store()),
        messages.name().as_str(),
        "work",
    )
    .await;
    let store = Arc::clone(&people.store) as Arc<dyn TableStore>;
    let process = Coordinator::open(
        Arc::clone(transactions.store()),
        transactions.name().as_str(),
        Arc::new(queue.expect("a queue")),
        Resources::new().with_store("people", store),
    );
    let process = process.await.expect("a table");
    let at = |row: &str| Entity::from(key("Sales", row)).with("City", "Bern");
    let (name, to) = (people.raw.name(), || "people".to_owned());
    for (entity, shown) in [
        (at("guest1").with("Iban", "secret"), "'Iban'"),
        (at("emp1").with("Secret", "secret"), "'Secret'"),
    ] {
        let (table, large) = (
            name.clone(),
            entity.clone().with("Large", vec![0_u8; 60_000]),
        );
        for entity in [entity, large] {
            for step in [
                Step::Upsert {
                    store: to(),
                    table: table.clone(),
                    entity: entity.clone(),
                },
                Step::UpsertMerge {
                    store: to(),
                    table: table.clone(),
                    entity: entity.clone(),
                },
                Step::ReplaceIfExists {
                    store: to(),
                    table: table.clone(),
                    entity: entity.clone(),
                },
            ] {
                let transaction = EventualTransaction::new().then(step);
                refused(
                    process.submit(&transaction, Acknowledge::Committed).await,
                    shown,
                );
            }
        }
    }
    assert_eq!(transactions.all(&Query::new()).await, vec![]);
    assert_eq!(messages.all(&Query::new()).await, vec![]);
    // A plan without encrypted values is accepted, and so is a move, whose plan has only the keys.
    people
        .clear
        .insert(at("emp2").with("Secret", "secret"))
        .await;
    let place =
        |row: &str| table_patterns::eventual::Place::new("people", name.clone(), key("Sales", row));
    let transaction = EventualTransaction::new()
        .upsert("people", name.clone(), at("guest2").with("Secret", "open"))
        .move_entity(place("emp2"), place("emp3"));
    process
        .submit(&transaction, Acknowledge::Applied)
        .await
        .expect("a legal plan");
    assert_eq!(
        people
            .clear
            .existing(&key("Sales", "emp3"))
            .await
            .get("Secret"),
        text("secret")
    );
    assert_hidden(&people, &["secret"]).await;
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Letter {
    #[partition_key]
    sender: String,
    #[row_key]
    number: String,
    title: String,
    #[large(over = 10)]
    secret: String,
}

/// Without an encrypting codec the row would refer, under encryption, to a plaintext blob: such a table is
/// refused.
pub(crate) async fn large_values_need_an_encrypting_codec(harness: &Harness) {
    let letter = |number: &str| {
        let (sender, title) = ("Ken".to_owned(), "none".to_owned());
        Letter {
            sender,
            number: number.to_owned(),
            title,
            secret: "secret ".repeat(100),
        }
    };
    let by_name = TableViews::with(harness, |b, t| b.encrypt(t, ["Secret"])).await;
    let blobs = Arc::new(InMemory::new());
    let db = Database::new(Arc::clone(&by_name.store) as Arc<dyn TableStore>);
    let db = db.with_blobs(blobs.clone());
    refused(
        db.table::<Letter>(by_name.raw.name().clone()),
        "`#[encrypt]`",
    );

    let by_row = ruled(harness).await;
    let open = |options| {
        let db = Database::new(Arc::clone(&by_row.store) as Arc<dyn TableStore>);
        let db = db.with_blobs(blobs.clone()).with_large(options);
        db.table::<Letter>(by_row.raw.name().clone())
            .expect("a table")
    };
    let plain = open(LargeOptions::default());
    refused(plain.insert(&letter("emp1")).await, "codec");
    refused(plain.upsert(&letter("emp1")).await, "codec");
    plain.insert(&letter("guest1")).await.expect("a letter");
    assert_eq!(
        blobs
            .list(None)
            .try_collect::<Vec<_>>()
            .await
            .expect("names")
            .len(),
        1
    );
    let content = stream::iter([Ok(b"secret secret".to_vec().into())]);
    let short = Entity::from(key("Ken", "emp2"))
        .with("Title", "none")
        .with("Secret", "short");
    by_row.clear.insert(short).await;
    let at = Letter::key("Ken", "emp2").expect("a key");
    refused(
        plain
            .put_stream(&at, Letter::SECRET, content, IfMatch::Any)
            .await,
        "codec",
    );
    open(LargeOptions::default().with_codec(Arc::new(by_row.store.blob_cipher())))
        .insert(&letter("emp3"))
        .await
        .expect("a codec that encrypts");
    let names: Vec<_> = blobs.list(None).try_collect().await.expect("names");
    assert_eq!(names.len(), 2);
    assert_hidden(&by_row, &["secret"]).await;
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Event", rename_all = "PascalCase", spread = 4)]
struct Event {
    #[partition_key]
    topic: String,
    #[row_key]
    id: String,
    note: String,
}

/// Rows of wide entities and of buckets have keys of their own. A rule by row gets the key of the entity.
pub(crate) async fn rules_by_row_get_the_key_of_the_entity(harness: &Harness) {
    let by_partition = |partition: &str, _: &str, _: &str| partition == "Sales";
    let table = TableViews::with(harness, |b, t| {
        b.encrypt_where(t, ["Diagnosis"], |_, row, _| row == "emp7")
            .encrypt_where(t, ["Note"], by_partition)
    })
    .await;
    let store = Arc::clone(&table.store) as Arc<dyn TableStore>;
    let wide = WideEntities::new(Arc::clone(&store), table.raw.name().clone());
    for (row, value) in [("emp7", "secret"), ("emp8", "open")] {
        let patient = Entity::from(key("Ward", row)).with("Diagnosis", value);
        wide.insert(&patient).await.expect("an insert");
        wide.upsert(&patient.with("Beats", 60))
            .await
            .expect("an upsert");
    }
    let read = wide
        .get(&key("Ward", "emp7"))
        .await
        .expect("an answer")
        .expect("an entity");
    assert_eq!(read.get("Diagnosis"), text("secret"));
    assert!(
        read.properties()
            .find("Diagnosis")
            .is_some_and(|p| p.is_encrypted())
    );
    let open = wide
        .get(&key("Ward", "emp8"))
        .await
        .expect("an answer")
        .expect("an entity");
    assert!(
        open.properties()
            .find("Diagnosis")
            .is_some_and(|p| !p.is_encrypted())
    );
    wide.set(&read, "Diagnosis", "secret again")
        .await
        .expect("a change");

    let events = SpreadTable::<Event>::new(store, table.raw.name().clone()).expect("a table");
    for (topic, note) in [("Sales", "secret"), ("News", "open")] {
        let event = Event {
            topic: topic.to_owned(),
            id: "1".to_owned(),
            note: note.to_owned(),
        };
        events.insert(&event).await.expect("an insert");
        events.upsert(&event).await.expect("an upsert");
    }
    let news = events
        .get(Event::key("News", "1").expect("a key"))
        .await
        .expect("an answer");
    assert_eq!(news.map(|event| event.note), Some("open".to_owned()));
    // A type without the mark cannot read a property that a rule encrypts.
    events
        .get(Event::key("Sales", "1").expect("a key"))
        .await
        .expect_err("an encrypted property");
    assert_hidden(&table, &["secret"]).await;
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Login {
    #[partition_key]
    user: String,
    #[row_key]
    at: Ticks,
    secret: String,
}

/// A rule for the name of a family applies to all tables of the family. Rules apply to wide structs, too.
pub(crate) async fn types_of_families_and_wide_structs_need_the_mark(harness: &Harness) {
    let family = format!("{}x", harness.unused_name());
    let name = TableName::new(family.clone()).expect("a name");
    let table = TableViews::with(harness, |b, _| b.encrypt(&name, ["Secret"])).await;
    let store = Arc::clone(&table.store) as Arc<dyn TableStore>;
    refused(
        TimeSlices::new(Arc::clone(&store), &family, Every::Day, |login: &Login| {
            login.at
        }),
        "`#[encrypt]`",
    );
    refused(
        WideTable::<Login>::new(Arc::clone(&store), name.clone()),
        "`#[encrypt]`",
    );
    // A type without the property is not affected by the rule.
    SpreadTable::<Event>::new(store, name).expect("a table");
}
