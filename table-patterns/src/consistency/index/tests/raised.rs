//! Programs of two schema versions of a type, with the same indexes.

use crate::index::tests::open_table;
use table_core::memory::MemoryStore;
use table_core::prelude::TableEntity;
use table_core::store::Result;

use crate::Table;
use crate::index::{IndexOptions, IndexState, ScrubMode};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = table_core, type = "Job", rename_all = "PascalCase", row_key = "j_{id}")]
#[index(state, row_key = "state_{state}_{id}", payload = fields(title))]
#[index(
    title,
    partition_key = "t_{title}",
    row_key = "title",
    unique = "table"
)]
#[index(mine, partition_key = "m_{title}", row_key = "{p}_{id}")]
struct Job1 {
    #[partition_key]
    p: String,
    id: u32,
    state: String,
    title: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = table_core, type = "Job", rename_all = "PascalCase", row_key = "j_{id}", version = 2, previous = Job1)]
#[index(state, row_key = "state_{state}_{id}", payload = fields(title))]
struct Job2 {
    #[partition_key]
    p: String,
    id: u32,
    state: String,
    title: String,
    more: Option<String>,
}

impl From<Job1> for Job2 {
    fn from(
        Job1 {
            p,
            id,
            state,
            title,
        }: Job1,
    ) -> Self {
        Self {
            p,
            id,
            state,
            title,
            more: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    crate = table_core, type = "Job", rename_all = "PascalCase", row_key = "j_{id}",
    version = 3, min_reader = 2, previous = Job2
)]
#[index(state, row_key = "state_{state}_{id}", payload = fields(title))]
struct Job3 {
    #[partition_key]
    p: String,
    id: u32,
    state: String,
    title: String,
    more: Option<String>,
    most: Option<String>,
}

impl From<Job2> for Job3 {
    fn from(
        Job2 {
            p,
            id,
            state,
            title,
            more,
        }: Job2,
    ) -> Self {
        Self {
            p,
            id,
            state,
            title,
            more,
            most: None,
        }
    }
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = table_core, projection_of = Job1, rename_all = "PascalCase")]
struct Title1 {
    title: String,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = table_core, projection_of = Job2, rename_all = "PascalCase")]
struct Title2 {
    title: String,
}

fn job1(id: u32) -> Job1 {
    Job1 {
        p: "p".to_owned(),
        id,
        state: "new".to_owned(),
        title: format!("t{id}"),
    }
}

fn job2(id: u32) -> Job2 {
    job1(id).into()
}

async fn open<T: TableEntity>(store: &MemoryStore) -> Result<Table<T>> {
    open_table(store.clone(), "Jobs", IndexOptions::local()).await
}

fn titles(ids: &[u32]) -> Vec<Title2> {
    ids.iter()
        .map(|id| Title2 {
            title: format!("t{id}"),
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_index_stays_the_same_in_a_later_version() -> Result<()> {
    let definitions = [Job1::SCHEMA, Job2::SCHEMA, Job3::SCHEMA].map(|schema| &schema.indexes[0]);
    for definition in definitions {
        assert_eq!(
            definition.fingerprint(),
            definitions[0].fingerprint(),
            "{}",
            definition.to_json()
        );
        assert!(
            !definition.to_json().contains("EntityVersion"),
            "{}",
            definition.to_json()
        );
    }
    let store = MemoryStore::new();
    let one = open::<Job1>(&store).await?;
    one.insert(&job1(1)).await?;
    // Deployed without a build: both versions write, and look up by the index.
    let two = open::<Job2>(&store).await?;
    assert_eq!(two.entities().await?.state("state"), IndexState::Readable);
    let found = |two: &Table<Job2>| two.by(Job2::by_state("p").state("new"));
    assert_eq!(found(&two).all().await?, [job2(1)]);
    two.insert(&job2(2)).await?;
    one.insert(&job1(3)).await?;
    assert_eq!(found(&two).all().await?, [job2(1), job2(2), job2(3)]);
    // An entry is of the version of its entity. As of an entity, a projection reads it in its own version.
    let page = found(&two).project::<Title2>().readable_page(None).await?;
    assert_eq!((page.page.items, page.unreadable.len()), (titles(&[2]), 2));
    let page = one
        .by(Job1::by_state("p").state("new"))
        .project::<Title1>()
        .readable_page(None)
        .await?;
    let read: Vec<_> = page
        .page
        .items
        .iter()
        .map(|found| found.title.as_str())
        .collect();
    assert_eq!(read, ["t1", "t3"]);
    assert_eq!(page.unreadable.len(), 1);
    let three = open::<Job3>(&store).await?;
    three.insert(&job2(4).into()).await?;
    // An upgrade changes the versions in the entries. Version 3 names version 2 as a reader.
    three.upgrade_all().await?;
    assert_eq!(
        found(&two).project::<Title2>().all().await?,
        titles(&[1, 2, 3, 4])
    );
    for index in ["state", "title", "mine"] {
        let report = three
            .entities()
            .await?
            .scrub(index, ScrubMode::Report)
            .await?;
        let found = (
            report.entries,
            report.missing,
            report.dangling,
            report.taken_keys,
        );
        assert_eq!(found, (4, 0, 0, 0), "{index}");
    }
    Ok(())
}

/// The rows of the later version name no reader, so only their stored properties tell the entries.
#[tokio::test(start_paused = true)]
async fn an_earlier_version_builds_its_index_over_rows_of_a_later_version() -> Result<()> {
    let store = MemoryStore::new();
    let two = open::<Job2>(&store).await?;
    two.insert(&job2(1)).await?;
    two.insert(&job2(2)).await?;
    let one = open::<Job1>(&store).await?;
    for index in ["title", "mine"] {
        let built = one.entities().await?.build(index)?.run().await?;
        assert_eq!(
            (built.state, built.entries),
            (IndexState::Readable, 2),
            "{index}"
        );
    }
    one.insert(&job1(3)).await?;
    let taken = one
        .insert(&Job1 {
            title: "t2".to_owned(),
            ..job1(4)
        })
        .await
        .unwrap_err();
    assert!(taken.is_unique_violation(), "{taken}");
    two.entities().await?.refresh().await?;
    let rename = |job: &mut Job2| {
        job.title = "other".to_owned();
        Ok(())
    };
    two.update(Job2::key("p", 2)?, rename).await?;
    assert!(one.delete_if_exists(Job1::key("p", 1)?).await?);
    // Only a deletion: what the earlier version does not know is not overwritten.
    let refused = one.upsert(&job1(2)).await.unwrap_err();
    assert!(
        refused.to_string().contains("is stored in version 2"),
        "{refused}"
    );
    for (program, entities) in [
        ("one", one.entities().await?),
        ("two", two.entities().await?),
    ] {
        for index in ["state", "title", "mine"] {
            let report = entities.scrub(index, ScrubMode::Report).await?;
            let found = (
                report.entries,
                report.missing,
                report.dangling,
                report.taken_keys,
            );
            assert_eq!(found, (2, 0, 0, 0), "{index} by program {program}");
        }
    }
    Ok(())
}
