//! Transforms, lists and conditions in templates, for programs with the type and programs with the definitions
//! alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::index::tests::open_table;
use chrono::{DateTime, TimeDelta, Utc};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::prelude::*;
use table_core::store::Result;

use crate::Table;
use crate::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Placement, ScrubMode, Shape, Trust,
};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Ticket", rename_all = "PascalCase")]
#[index(email, row_key = "email_{email:lower}", unique = "partition")]
#[index(newest, partition_key = "newest", row_key = "{opened:desc}_{team}_{id}", payload = full)]
#[index(
    day,
    partition_key = "day_{opened:date}",
    row_key = "{opened:hour}_{team}_{id}"
)]
#[index(
    tag,
    partition_key = "tag_{tags[]:lower#4}",
    row_key = "{tags[]:lower}_{team}_{id}",
    where = "Status eq 'open'"
)]
#[index(label, row_key = "label_{tags[]}", shape = list)]
#[index(start, row_key = "start_{email:lower:prefix(2)}_{id}")]
struct Ticket {
    #[partition_key]
    team: String,
    #[row_key(format = "ticket_{}")]
    id: u32,
    email: String,
    opened: DateTime<Utc>,
    status: String,
    #[entity(json)]
    tags: BTreeSet<String>,
}

fn noon() -> DateTime<Utc> {
    "2026-11-22T12:00:00Z".parse().unwrap()
}

fn ticket(id: u32, tags: &[&str]) -> Ticket {
    Ticket {
        team: "support".into(),
        id,
        email: format!("User{id}@X"),
        opened: noon() + TimeDelta::minutes(i64::from(id) * 20),
        status: "open".into(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    }
}

async fn open(store: &MemoryStore) -> Result<Table<Ticket>> {
    open_table(store.clone(), "Tickets", IndexOptions::local()).await
}

/// The same table, opened with the definitions alone.
async fn by_definitions(store: &MemoryStore) -> Result<IndexedEntities> {
    let indexes = Ticket::SCHEMA
        .indexes
        .iter()
        .cloned()
        .map(Index::from_definition);
    let store: Arc<dyn TableStore> = Arc::new(store.clone());
    let indexes = indexes.collect::<Result<Vec<_>>>()?;
    IndexedEntities::open(
        store,
        TableName::new("Tickets")?,
        indexes,
        IndexOptions::local(),
    )
    .await
}

async fn ids<E>(tickets: &Table<Ticket>, entries: E) -> Result<Vec<u32>>
where
    E: table_core::typed::EntriesOf<Ticket>,
{
    Ok(tickets
        .by(entries)
        .all()
        .await?
        .iter()
        .map(|ticket: &Ticket| ticket.id)
        .collect())
}

async fn check(tickets: &IndexedEntities) -> Result<()> {
    for index in Ticket::SCHEMA.indexes {
        let report = tickets.scrub(&index.name, ScrubMode::Report).await?;
        assert_eq!(report.dangling, 0, "{}", index.name);
        assert_eq!(report.missing, 0, "{}", index.name);
        assert_eq!(report.taken_keys, 0, "{}", index.name);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lookups_find_transformed_values() -> Result<()> {
    let tickets = open(&MemoryStore::new()).await?;
    tickets.insert(&ticket(1, &["Red", "big"])).await?;
    tickets.insert(&ticket(2, &["RED"])).await?;
    tickets
        .insert(&Ticket {
            status: "closed".into(),
            ..ticket(3, &["red"])
        })
        .await?;

    let found = tickets
        .by(Ticket::by_email("support").email("USER1@x"))
        .get()
        .await?;
    assert_eq!(found.map(|ticket: Ticket| ticket.id), Some(1));
    assert_eq!(ids(&tickets, Ticket::by_newest()).await?, [3, 2, 1]);
    assert_eq!(
        ids(
            &tickets,
            Ticket::by_newest().opened_in(..noon() + TimeDelta::hours(1))
        )
        .await?,
        [2, 1]
    );
    assert_eq!(
        ids(&tickets, Ticket::by_day(noon()).opened(noon())).await?,
        [1, 2]
    );
    assert_eq!(ids(&tickets, Ticket::by_tag("rEd")).await?, [1, 2]);
    assert_eq!(
        ids(&tickets, Ticket::by_label("support").tags("red")).await?,
        [3]
    );
    assert_eq!(
        ids(&tickets, Ticket::by_start("support").email_prefix("US")).await?,
        [1, 2, 3]
    );

    // Elements are added and removed, and the condition changes.
    let red = tickets
        .get_existing_stored(Ticket::key("support", 1)?)
        .await?;
    tickets
        .replace_stored(
            &red,
            &Ticket {
                tags: ["Blue".to_owned()].into(),
                ..(*red).clone()
            },
        )
        .await?;
    let reopen = |ticket: &mut Ticket| {
        ticket.status = "open".to_owned();
        Ok(())
    };
    tickets.update(Ticket::key("support", 3)?, reopen).await?;
    assert_eq!(ids(&tickets, Ticket::by_tag("red")).await?, [2, 3]);
    assert_eq!(ids(&tickets, Ticket::by_tag("blue")).await?, [1]);
    assert_eq!(ids(&tickets, Ticket::by_tag("big")).await?, [0; 0]);
    assert!(
        ids(&tickets, Ticket::by_label("support").tags("big"))
            .await?
            .is_empty()
    );
    tickets.delete_if_exists(Ticket::key("support", 2)?).await?;
    assert_eq!(ids(&tickets, Ticket::by_tag("red")).await?, [3]);
    let taken = tickets
        .insert(&Ticket {
            email: "user3@x".into(),
            ..ticket(4, &[])
        })
        .await;
    assert!(taken.unwrap_err().is_unique_violation());
    check(tickets.entities().await?).await
}

/// A program with the definitions alone writes the same entries as a program with the type, and its scrub finds no difference.
#[tokio::test(start_paused = true)]
async fn definitions_and_type_write_the_same_entries() -> Result<()> {
    let store = MemoryStore::new();
    let tickets = open(&store).await?;
    tickets.insert(&ticket(1, &["Red", "big"])).await?;
    tickets.insert(&ticket(2, &["RED"])).await?;
    let dynamic = by_definitions(&store).await?;
    check(&dynamic).await?;
    dynamic
        .insert(ticket(3, &["red", "new"]).to_entity()?)
        .await?;
    let first = dynamic
        .get_existing(Ticket::key("support", 1)?.key())
        .await?;
    let closed = first
        .entity()
        .clone()
        .with("Status", "closed")
        .with("Email", "Other@X");
    dynamic.replace(&first, closed).await?;
    check(tickets.entities().await?).await?;
    assert_eq!(ids(&tickets, Ticket::by_tag("red")).await?, [2, 3]);
    let found = tickets
        .by(Ticket::by_email("support").email("other@x"))
        .get()
        .await?;
    assert_eq!(found.map(|ticket: Ticket| ticket.id), Some(1));
    let third = dynamic
        .get_existing(Ticket::key("support", 3)?.key())
        .await?;
    dynamic.delete(&third).await?;
    check(tickets.entities().await?).await
}

/// A build writes the same entries as writes do.
#[tokio::test(start_paused = true)]
async fn indexes_of_lists_are_built_scrubbed_and_dropped() -> Result<()> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let table = TableName::new("Notes")?;
    store.create_table(&table).await?;
    for id in 0..20 {
        let tags = serde_json::to_string(&[format!("T{}", id % 3), "All".to_owned()]).unwrap();
        let note = Entity::new("p", format!("note{id:02}"))?
            .with("Tags", tags)
            .with("Size", id);
        store.write(&table, Operation::Insert(note)).await?;
    }
    let indexes = || -> Result<Vec<Index>> {
        let rows = Index::keyed(
            "rows",
            Placement::OtherPartition,
            "rows_{Tags[]:lower}",
            "{Size:desc}_{RowKey}",
        )?;
        let lists = Index::keyed("lists", Placement::SamePartition, "", "lists_{Tags[]}")?
            .with_shape(Shape::LIST);
        let counts = Index::keyed("counts", Placement::SamePartition, "", "counts_{Tags[]}")?;
        let counts = counts
            .with_shape(Shape::summary(["Size"]))
            .with_condition("Size ge 10")?;
        Ok(vec![rows, lists, counts])
    };
    let notes = IndexedEntities::open(
        store.clone(),
        table.clone(),
        indexes()?,
        IndexOptions::local(),
    )
    .await?;
    for name in ["rows", "lists", "counts"] {
        notes.build(name)?.run().await?;
        let report = notes.scrub(name, ScrubMode::Report).await?;
        assert_eq!(report.dangling, 0, "{name}");
        assert_eq!(report.missing, 0, "{name}");
        assert_eq!(report.taken_keys, 0, "{name}");
    }
    let all = notes
        .all("rows", &IndexQuery::partition("rows_t1"), Trust::Entity)
        .await?;
    let rows: Vec<_> = all.iter().map(|e| e.key().row().to_owned()).collect();
    assert_eq!(
        rows,
        [
            "note19", "note16", "note13", "note10", "note07", "note04", "note01"
        ]
    );
    assert_eq!(
        notes
            .list("lists", &Key::new("p", "lists_All")?)
            .await?
            .len(),
        20
    );
    let count = notes
        .summary("counts", &Key::new("p", "counts_All")?)
        .await?;
    assert_eq!(count.count, 10);
    assert_eq!(count.sums.get("Size"), Some(&145));

    // A scrub finds the missing entry of one of several elements.
    let lost = Key::new("rows_all", all[0].key().row())?;
    let entry = notes
        .all("rows", &IndexQuery::partition("rows_all"), Trust::Entry)
        .await?;
    assert_eq!(entry.len(), 20, "{lost}");
    let query = Query::new()
        .with_filter(Filter::eq("PartitionKey", "rows_all"))
        .with_top(1);
    let row = store.query_all(&table, &query).await?.remove(0);
    store
        .write(&table, Operation::Delete(row.key().clone(), IfMatch::Any))
        .await?;
    let report = notes.scrub("rows", ScrubMode::Repair).await?;
    assert_eq!(report.dangling, 0);
    assert_eq!(report.missing, 1);
    assert_eq!(notes.scrub("rows", ScrubMode::Report).await?.missing, 0);
    notes.drop_index("rows").await?;
    assert!(store.query_all(&table, &query).await?.is_empty());
    Ok(())
}

#[test]
fn an_opaque_definition_needs_its_function() {
    let index = Index::new("own", Placement::SamePartition, "1", |_| Ok(None));
    let error = Index::from_definition(index.definition().clone())
        .unwrap_err()
        .to_string();
    assert!(error.contains("opaque"), "{error}");
}

fn row(template: &str, entity: &Entity) -> Result<Option<String>> {
    let index = Index::keyed("i", Placement::SamePartition, "", template)?;
    let entries = index.entries(&TableName::new("People").unwrap(), entity)?;
    Ok(entries
        .first()
        .map(|entry| entry.location.key.row().to_owned()))
}

#[test]
fn templates_combine_text_and_properties() {
    let e = Entity::new("p", "r1")
        .unwrap()
        .with("Name", "a_b")
        .with("Age", 7)
        .with("Big", -1i64);
    let row = |template: &str| row(template, &e).unwrap();
    assert_eq!(row("x_{Name}_{RowKey}").unwrap(), "x_a~5Fb_r1");
    assert_eq!(row("{Age:03}-{Name}").unwrap(), "007-a_b");
    assert_eq!(row("{Missing}_{RowKey}"), None);
    assert!(row("{Big}_").unwrap() < row("{Big}_{RowKey}").unwrap());
    assert!(row("{Name#16}{Name}").unwrap().ends_with("a_b"));
}

/// Neither as a plain part nor as a shard.
#[test]
fn a_template_refuses_an_encrypted_property() -> Result<()> {
    let e = Entity::new("p", "r1")
        .unwrap()
        .with_encrypted("Secret", "s3cr3t")
        .with_encrypted("RowKey2", 1);
    for template in ["{Secret}_{RowKey}", "{Secret#16}{RowKey}", "{RowKey2:03}"] {
        let error = row(template, &e).unwrap_err().to_string();
        assert!(
            error.contains("blind index") && !error.contains("s3cr3t"),
            "{error}"
        );
    }
    assert_eq!(row("x_{RowKey}", &e)?.unwrap(), "x_r1");
    let index = Index::keyed(
        "i",
        Placement::SamePartition,
        "{Secret#16}",
        "{Age:03}_{RowKey}",
    )?;
    assert_eq!(
        index.with_condition("Kind eq 'x'")?.properties_read()?,
        ["Secret", "Age", "Kind"]
    );
    Ok(())
}
