use std::collections::BTreeSet;

use futures_util::TryStreamExt;
use proptest::prelude::prop;
use table_core::model::IfMatch;
use table_core::store::Result;
use table_core::typed::{PlainTable, RowPrefix, TableEntity};

use super::{Event, Rig};
use crate::spread::SpreadTable;

#[tokio::test]
async fn points_cost_what_they_cost_without_buckets() -> Result<()> {
    let rig = Rig::new().await?;
    let events = rig.open::<Event>()?;
    let key = Event::key("1", 7u32)?;
    events.insert(&Event::new(1, "a")).await?;
    assert_eq!(
        rig.meter.total(),
        3,
        "the type's row in the manifest, the manifest again, and the entity"
    );
    rig.meter.reset();
    events.insert(&Event::new(7, "a")).await?;
    assert_eq!(rig.meter.total(), 1);
    let read = events.get(&key).await?.unwrap();
    assert_eq!(read.text.as_str(), "a");
    assert_eq!(rig.meter.total(), 2);
    events.replace(&read).await?;
    events.upsert(&Event::new(7, "b")).await?;
    assert_eq!(rig.meter.total(), 5, "the upsert reads the version first");
    assert!(
        events
            .replace(&read)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    let updated = events.update(&key, |event| {
        event.text.push('c');
        Ok(())
    });
    assert_eq!(updated.await?.text, "bc");
    assert_eq!(rig.meter.total(), 8);
    assert!(events.insert(&read).await.unwrap_err().is_already_exists());
    events.delete(&key, IfMatch::Any).await?;
    assert_eq!(rig.meter.total(), 10);
    assert!(
        events
            .get_existing(&key)
            .await
            .unwrap_err()
            .is_entity_not_found()
    );
    Ok(())
}

#[tokio::test]
async fn rows_are_spread_and_read_in_order() -> Result<()> {
    let rig = Rig::new().await?;
    let events = rig.open::<Event>()?;
    for number in (0..200).rev() {
        events.insert(&Event::new(number, "x")).await?;
    }
    let rows = rig.entities().await?;
    let partitions: BTreeSet<_> = rows.iter().map(|row| row.key().partition()).collect();
    assert_eq!(
        partitions,
        BTreeSet::from(["0000_day_1", "0001_day_1", "0002_day_1", "0003_day_1"])
    );
    rig.meter.reset();

    let all: Vec<_> = events
        .query()
        .partition(Event::partition("1")?)
        .all()
        .await?;
    assert!(all.iter().map(|event| event.number).eq(0..200));
    assert_eq!(rig.meter.total(), 4);

    let first = events
        .query()
        .partition(Event::partition("1")?)
        .limit(10)
        .all()
        .await?;
    assert!(first.iter().map(|event| event.number).eq(0..10));
    assert_eq!(rig.meter.total(), 8);

    let range = || RowPrefix::escaped("000050")..RowPrefix::escaped("000060");
    let some: Vec<_> = events
        .query()
        .partition(Event::partition("1")?)
        .narrow(move |rows| rows.rows(range()))
        .all()
        .await?;
    assert!(some.iter().map(|event| event.number).eq(50..60));
    let none: Vec<_> = events
        .query()
        .partition(Event::partition("2")?)
        .all()
        .await?;
    assert_eq!(none, []);
    Ok(())
}

#[test]
fn only_declared_types_are_spread_and_nothing_else_opens_them() {
    #[derive(Debug, TableEntity)]
    struct Plain {
        #[partition_key]
        day: String,
        #[row_key]
        number: u32,
    }
    let store = std::sync::Arc::new(table_core::memory::MemoryStore::new());
    let error = SpreadTable::<Plain>::new(store.clone(), "Events").unwrap_err();
    assert!(error.to_string().contains("spread = 16"), "{error}");
    let error = PlainTable::<Event>::new(store, "Events").unwrap_err();
    assert!(error.to_string().contains("SpreadTable"), "{error}");
}

proptest::proptest! {
    /// Any set of rows comes back sorted, whatever the pages.
    #[test]
    fn merged_reads_are_sorted(numbers in prop::collection::btree_set(0u32..500, 0..60), page in 1..7usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let check = async {
            let events = Rig::new().await?.open::<Event>()?;
            for number in &numbers {
                events.insert(&Event::new(*number, "x")).await?;
            }
            let read = events.query().partition(Event::partition("1")?).narrow(move |rows| rows.page_size(page)).stream();
            let read: Vec<_> = read.map_ok(|event| event.number).try_collect().await?;
            assert!(read.into_iter().eq(numbers));
            Ok::<_, table_core::Error>(())
        };
        runtime.block_on(check).map_err(|e| proptest::test_runner::TestCaseError::fail(e.to_string()))?;
    }
}
