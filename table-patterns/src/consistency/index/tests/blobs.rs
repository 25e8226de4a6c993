//! Lists in blobs: lost blobs, delayed writes, and blob stores that tables share.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use table_core::model::{IfMatch, TableName};
use table_core::store::{Operation, OperationKind, Result, TableStore};

use super::world::{World, by_city, list_of, person};
use tokio::time::Instant;

use crate::index::{Index, IndexOptions, IndexedEntities, Placement, ScrubMode, Shape, WaitingFor};

fn index() -> Index {
    by_city(
        Placement::OtherTable(TableName::new("ByCity").unwrap()),
        Shape::Blob,
    )
}

async fn with_people(world: &World, ids: std::ops::Range<usize>) -> Result<IndexedEntities> {
    let people = world.open(vec![index()]).await?;
    for id in ids {
        people.insert(person(id, "oslo")?).await?;
    }
    Ok(people)
}

/// A lost blob is an error without retries: no writer can restore it.
#[tokio::test(start_paused = true)]
async fn a_lookup_reports_a_lost_blob() -> Result<()> {
    let world = World::new().await?;
    let people = with_people(&world, 0..5).await?;
    for meta in world
        .blobs
        .list(None)
        .try_collect::<Vec<_>>()
        .await
        .unwrap()
    {
        world.blobs.delete(&meta.location).await.unwrap();
    }
    let before = world.meter.total();
    let error = people
        .list("city", &list_of(&index(), "oslo"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("scrub the index 'city'"),
        "{error}"
    );
    assert_eq!(
        world.meter.total() - before,
        2,
        "the row, and the row again"
    );
    let report = people.scrub("city", ScrubMode::Report).await?;
    assert_eq!(report.dangling, 1);
    assert_eq!(report.missing, 5);
    people.scrub("city", ScrubMode::Repair).await?;
    assert_eq!(
        people.list("city", &list_of(&index(), "oslo")).await?.len(),
        5
    );
    Ok(())
}

/// A scrub names a new blob only within its lease: after the lease, the blob may have been collected.
#[tokio::test(start_paused = true)]
async fn a_scrub_names_no_blob_after_its_lease() -> Result<()> {
    let world = World::new().await?;
    let people = with_people(&world, 0..3).await?;
    let gone = Operation::Delete(person(1, "oslo")?.key().clone(), IfMatch::Any);
    world.store.write(people.table(), gone).await?;
    let faults = FaultInjector::new(1);
    let late = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
    let mut options = IndexOptions::local();
    options.blobs = Some(world.blobs.clone());
    let scrubber =
        IndexedEntities::open(late, people.table().clone(), vec![index()], options).await?;
    faults.add(
        FaultRule::new(Fault::Delay(Duration::from_secs(10)))
            .on(OperationKind::Replace)
            .nth(1),
    );
    let error = scrubber.scrub("city", ScrubMode::Repair).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert_eq!(
        people.collect_blobs("city").await?,
        1,
        "the blob that was not named"
    );
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(
        people.list("city", &list_of(&index(), "oslo")).await?.len(),
        2
    );
    Ok(())
}

/// Tables of one name in two stores, such as production and staging, share a blob store.
#[tokio::test(start_paused = true)]
async fn tables_of_one_name_in_two_stores_have_separate_blob_folders() -> Result<()> {
    let (production, mut staging) = (World::new().await?, World::new().await?);
    staging.blobs = production.blobs.clone();
    let (here, there) = (
        with_people(&production, 0..3).await?,
        with_people(&staging, 0..7).await?,
    );
    assert_eq!(here.collect_blobs("city").await?, 0);
    there.drop_index("city").await?;
    assert_eq!(
        here.list("city", &list_of(&index(), "oslo")).await?.len(),
        3
    );
    // The folder belongs to the table, not to the handle.
    assert_eq!(
        with_people(&production, 3..4)
            .await?
            .collect_blobs("city")
            .await?,
        0
    );
    assert_eq!(production.blobs().await, 1);
    Ok(())
}

/// A drop of lists in blobs reports, before the wait, that it waits for writers that may name a blob.
#[tokio::test(start_paused = true)]
async fn a_drop_reports_its_wait_for_blobs() -> Result<()> {
    let world = World::new().await?;
    let people = with_people(&world, 0..3).await?;
    let blob = world
        .blobs
        .list(None)
        .try_collect::<Vec<_>>()
        .await
        .unwrap()
        .remove(0)
        .location;
    // A blob of a writer that died before a row named the blob.
    let orphan = object_store::path::Path::from(format!("{blob}0"));
    world.blobs.put(&orphan, "x".into()).await.unwrap();
    let mut waited = Vec::new();
    people
        .drop_index_with("city", |waiting| waited.push((waiting, Instant::now())))
        .await?;
    let (last, reported) = waited.pop().expect("the drop waits for blobs");
    assert_eq!(last.for_what, WaitingFor::Blobs);
    assert!(
        reported < last.until,
        "the report comes before the end of the wait: {last}"
    );
    assert!(
        last.until <= Instant::now(),
        "the drop waits to the end: {last}"
    );
    assert!(last.to_string().contains("blobs"), "{last}");
    assert!(
        waited
            .iter()
            .all(|(waiting, _)| waiting.for_what != WaitingFor::Blobs)
    );
    assert_eq!(world.blobs().await, 0);
    Ok(())
}
