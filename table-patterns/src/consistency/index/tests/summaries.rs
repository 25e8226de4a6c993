//! Summaries: counts and sums.

use std::collections::BTreeMap;

use table_core::model::{Entity, Key};
use table_core::store::{BulkSummary, Result};

use super::world::{World, person, rows_left, text};
use crate::index::{
    BulkInsert, Index, IndexQuery, IndexState, Placement, ScrubMode, Shape, Summary,
};
use crate::journal::Change;

fn ages() -> Index {
    let index = Index::new("ages", Placement::SamePartition, "1", |e| {
        text(e, "City")
            .map(|city| Key::new(e.key().partition(), format!("sum_{city}")))
            .transpose()
    });
    index.with_shape(Shape::summary(["Age"]))
}

fn summary(count: i64, age: i64) -> Summary {
    let mut summary = Summary::default();
    (summary.count, summary.sums) = (count, BTreeMap::from([("Age".to_owned(), age)]));
    summary
}

#[tokio::test(start_paused = true)]
async fn summaries_count_and_sum_in_the_group() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![ages()]).await?;
    let oslo = Key::new("p", "sum_oslo")?;
    let group: Vec<_> = (0..50)
        .map(|id| Ok(Change::insert(person(id, "oslo")?)))
        .collect::<Result<_>>()?;
    assert_eq!(
        world.cost(people.write(&group)).await?,
        2,
        "the summary, the group"
    );
    assert_eq!(people.summary("ages", &oslo).await?, summary(50, 2000));
    let json = serde_json::to_value(people.summary("ages", &oslo).await?).expect("JSON");
    assert_eq!(
        json,
        serde_json::json!({"count": 50, "sums": {"Age": 2000}, "minima": {}, "maxima": {}})
    );
    let old = people.get_existing(&Key::new("p", "00001")?).await?;
    let older = person(1, "oslo")?.with("Age", 50i64);
    assert_eq!(world.cost(people.replace(&old, older)).await?, 2);
    assert_eq!(people.summary("ages", &oslo).await?, summary(50, 2010));
    people
        .modify(&Key::new("p", "00001")?, |_| {
            Ok(Some(Entity::new("p", "00001")?.with("City", "rome")))
        })
        .await?;
    assert_eq!(people.summary("ages", &oslo).await?, summary(49, 1960));
    let all = people
        .summaries("ages", &IndexQuery::partition("p"))
        .await?;
    assert_eq!(
        all.iter()
            .map(|(k, s)| (k.row(), s.count))
            .collect::<Vec<_>>(),
        [("sum_oslo", 49), ("sum_rome", 1)]
    );
    let refused = people
        .insert(person(77, "oslo")?.with("Age", 1.5))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("integers"), "{refused}");
    let refused = people
        .insert(person(77, "oslo")?.with_encrypted("Age", 1))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("would store its sum"),
        "{refused}"
    );
    for id in 0..50 {
        people
            .modify(&Key::new("p", format!("{id:05}"))?, |_| Ok(None))
            .await?;
    }
    assert_eq!(rows_left(&world, "People").await?, 0);
    Ok(())
}

/// A write that was refused by the sum of others would tell their sum.
#[tokio::test(start_paused = true)]
async fn a_sum_outside_of_the_range_refuses_no_write() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![ages()]).await?;
    let at = Key::new("p", "sum_oslo")?;
    for (sign, least) in [(1, i64::MAX), (-1, i64::MIN)] {
        for id in 0..3 {
            people
                .insert(person(id, "oslo")?.with("Age", least))
                .await?;
        }
        let error = people.summary("ages", &at).await.unwrap_err().to_string();
        let sum = i128::from(least) * 3;
        assert!(
            error.contains("'Age'") && error.contains(&sum.to_string()),
            "{error}"
        );
        assert!(
            people
                .summaries("ages", &IndexQuery::partition("p"))
                .await
                .is_err()
        );
        let report = people.scrub("ages", ScrubMode::Report).await?;
        assert_eq!((report.missing, report.dangling), (0, 0));
        people
            .upsert(person(0, "oslo")?.with("Age", sign * 7))
            .await?;
        people
            .modify(&Key::new("p", "00001")?, |_| Ok(None))
            .await?;
        assert!(people.summary("ages", &at).await.is_err());
        people
            .modify(&Key::new("p", "00002")?, |_| Ok(None))
            .await?;
        assert_eq!(people.summary("ages", &at).await?, summary(1, sign * 7));
        people
            .modify(&Key::new("p", "00000")?, |_| Ok(None))
            .await?;
        assert_eq!(rows_left(&world, "People").await?, 0);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn summaries_are_exact_under_concurrent_writers() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![ages()]).await?;
    let writers = (0..8).map(|w| {
        let people = people.clone();
        async move {
            for n in 0..10 {
                people.insert(person(w * 100 + n, "oslo")?).await?;
            }
            Ok::<_, table_core::Error>(())
        }
    });
    futures_util::future::try_join_all(writers).await?;
    assert_eq!(
        people.summary("ages", &Key::new("p", "sum_oslo")?).await?,
        summary(80, 3200)
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_bulk_insert_fills_groups_with_entities_that_share_a_summary() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![ages()]).await?;
    let entities = (0..297).map(|id| person(id, "oslo"));
    let outcomes = people.insert_all(futures_util::stream::iter(entities), BulkInsert::default());
    let done = BulkSummary::of(outcomes).await?;
    assert_eq!(done.written, 297, "99 entities and the summary");
    assert_eq!(done.requests, 3, "99 entities and the summary");
    assert_eq!(
        people.summary("ages", &Key::new("p", "sum_oslo")?).await?,
        summary(297, 297 * 40)
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn summaries_are_built_and_corrected() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![]).await?;
    for id in 0..30 {
        let e = person(id, ["oslo", "rome"][id % 2])?;
        people
            .insert(e.with_key(Key::new(["p", "q", "zz"][id % 3], format!("{id:05}"))?))
            .await?;
    }
    let people = world.open(vec![ages()]).await?;
    assert_eq!(people.state("ages"), IndexState::Absent);
    let done = people.build("ages")?.run().await?;
    assert_eq!(done.entities, 30);
    assert_eq!(done.entries, 6);
    assert_eq!(
        people.summary("ages", &Key::new("q", "sum_rome")?).await?,
        summary(5, 200)
    );
    let wrong = Entity::new("q", "sum_rome")?
        .with("IndexName", ages().id())
        .with("Count", 7i64)
        .with("SumAge", 1i64);
    world
        .store
        .write(
            people.table(),
            table_core::store::Operation::InsertOrReplace(wrong),
        )
        .await?;
    let stray = Entity::new("q", "sum_bonn")?
        .with("IndexName", ages().id())
        .with("Count", 7i64);
    world
        .store
        .write(
            people.table(),
            table_core::store::Operation::InsertOrReplace(stray),
        )
        .await?;
    for mode in [ScrubMode::Report, ScrubMode::Repair] {
        let report = people.scrub("ages", mode).await?;
        assert_eq!(report.entities, 30, "{mode:?}");
        assert_eq!(report.missing, 1, "{mode:?}");
        assert_eq!(report.dangling, 1, "{mode:?}");
    }
    let report = people.scrub("ages", ScrubMode::Report).await?;
    assert_eq!(report.missing, 0);
    assert_eq!(report.dangling, 0);
    people.drop_index("ages").await?;
    assert_eq!(rows_left(&world, "People").await?, 30);
    Ok(())
}

/// Keys of system partitions may begin with any text after `~~`.
#[tokio::test(start_paused = true)]
async fn system_partitions_of_any_name_are_skipped() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![]).await?;
    people
        .insert(person(1, "oslo")?.with_key(Key::new("\u{FFFF}", "1")?))
        .await?;
    for partition in ["~~\u{E000}", "~~\u{FFFD}x", "~~\u{FFFF}", "~~\u{10FFFF}"] {
        let row = Entity::new(partition, "r")?;
        world
            .store
            .write(people.table(), table_core::store::Operation::Insert(row))
            .await?;
    }
    let people = world.open(vec![ages()]).await?;
    assert_eq!(people.build("ages")?.run().await?.entities, 1);
    Ok(())
}
