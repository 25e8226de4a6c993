//! Definitions, options and calls that are refused; lookups over shards.

use table_core::model::{Key, TableName};
use table_core::store::Result;

use super::world::{World, by_city, person, small, text};
use crate::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Overflow, Payload, Placement, Shape, Shards,
    Trust,
};

#[tokio::test(start_paused = true)]
async fn shards_are_read_together_in_order() -> Result<()> {
    let world = World::new().await?;
    let index = Index::keyed(
        "city",
        Placement::OtherPartition,
        "city_{City#8}",
        "{City}_{RowKey}",
    )?;
    let people = world.open(vec![index]).await?;
    for id in 0..60 {
        people
            .insert(person(id, ["oslo", "rome", "bonn", "bern"][id % 4])?)
            .await?;
    }
    let shards = Shards::new(8)?;
    let before = world.meter.total();
    let one = IndexQuery::partition(shards.partition("city_", "rome")).prefix("rome_");
    assert_eq!(people.all("city", &one, Trust::Entry).await?.len(), 15);
    assert_eq!(world.meter.total() - before, 1 + 15);
    let before = world.meter.total();
    let range = IndexQuery::partition("").range("bern", "p");
    let found = people
        .all_merged("city", &shards.partitions("city_"), &range, Trust::Entry)
        .await?;
    assert_eq!(world.meter.total() - before, 8 + 45);
    let cities: Vec<_> = found.iter().filter_map(|e| text(e, "City")).collect();
    assert!(cities.is_sorted() && cities.len() == 45, "{cities:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn inconsistent_definitions_and_options_are_refused() -> Result<()> {
    let world = World::new().await?;
    let here = || by_city(Placement::SamePartition, Shape::LIST);
    let cases = [
        (here().unique_within_partition(), "unique"),
        (here().with_payload(Payload::Full), "payload"),
        (
            here().with_shape(Shape::List {
                bytes: 1,
                overflow: Overflow::Blob,
            }),
            "256",
        ),
        (
            by_city(Placement::OtherPartition, Shape::summary::<&str>([])),
            "a number twice",
        ),
    ];
    for (index, what) in cases {
        let error = world.open(vec![index]).await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    let blob = vec![by_city(Placement::SamePartition, Shape::Blob)];
    let table = TableName::new("People")?;
    let error = IndexedEntities::open(world.store.clone(), table, blob, IndexOptions::local())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("object store"), "{error}");
    for (cache, what) in [(0, "0ns"), (62, "250ms"), (3_600_001, "3600s")] {
        let mut options = IndexOptions::local();
        options.cache = std::time::Duration::from_millis(cache);
        let (store, table) = (world.store.clone(), TableName::new("People")?);
        let before = world.meter.total();
        let error = IndexedEntities::open(store, table, vec![here()], options)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("IndexOptions::cache") && error.contains(what),
            "{error}"
        );
        assert_eq!(world.meter.total(), before);
    }
    let twins = vec![here(), by_city(Placement::OtherPartition, Shape::LIST)];
    let error = world.open(twins).await.unwrap_err().to_string();
    assert!(
        error.contains("two indexes") && error.contains("'city'"),
        "{error}"
    );
    let people = world.open(vec![here()]).await?;
    let key = Key::new("p", "city_oslo")?;
    assert!(
        people
            .find("city", &key, Default::default())
            .await
            .unwrap_err()
            .to_string()
            .contains("call `list`")
    );
    let changed = world
        .open(vec![by_city(
            Placement::SamePartition,
            small(Overflow::Entities),
        )])
        .await?;
    let built = changed.build("city")?.run().await;
    assert!(built.unwrap_err().to_string().contains("earlier program"));
    Ok(())
}

/// Each of two indexes would count, list or replace the other's entries.
#[tokio::test(start_paused = true)]
async fn a_write_into_the_row_of_another_index_is_refused() -> Result<()> {
    let named = |name: &'static str, shape: Shape| {
        let index = Index::new(name, Placement::SamePartition, "1", |e| {
            text(e, "City")
                .map(|city| Key::new(e.key().partition(), format!("x_{city}")))
                .transpose()
        });
        index.with_shape(shape)
    };
    let sums = || Shape::summary::<&str>([]);
    for (one, other) in [
        (sums(), sums()),
        (Shape::LIST, Shape::LIST),
        (Shape::Row, sums()),
    ] {
        let world = World::new().await?;
        let people = world
            .open(vec![named("one", one), named("other", other)])
            .await?;
        let error = people
            .insert(person(1, "oslo")?)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("'one'") && error.contains("'other'") && error.contains("x_oslo"),
            "{error}"
        );
        assert!(people.get(person(1, "oslo")?.key()).await?.is_none());
    }
    Ok(())
}
