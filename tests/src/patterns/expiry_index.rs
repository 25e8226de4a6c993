//! Sweeps that find expired entities by an index on the time.

use crate::open_table;
use table_core::prelude::*;
use table_patterns::index::ScrubMode;

use super::expiry::{World, options};
use crate::{Clock, Harness};

const SECOND: i64 = Clock::SECOND;
const DAY: i64 = Clock::DAY;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Ticket", rename_all = "PascalCase")]
#[index(end, partition_key = "end_{until:hour}", row_key = "{p}_{r}", payload = fields(until))]
struct Ticket {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
    #[expires]
    until: Option<Ticks>,
}

/// The entry of the earliest time.
async fn first_entry(world: &World) -> Entity {
    let entry = Query::new().with_filter(Filter::starts_with(Filter::PARTITION_KEY, "end_"));
    let entries = world
        .raw
        .query_all(&world.table, &entry)
        .await
        .expect("entries");
    entries
        .into_iter()
        .min_by(|a, b| a.key().cmp(b.key()))
        .expect("an entry")
}

/// A sweep finds entities by an index on their time, if there is one: it reads the entries up to the present time, whatever is in them.
pub(super) async fn a_sweep_finds_entities_by_their_times(harness: &Harness) {
    let world = World::new(harness).await;
    let store = world.store.clone();
    let table = open_table::<Ticket>(store, world.table.clone(), options())
        .await
        .expect("a table");
    let ends = [
        Some(0),
        Some(0),
        Some(3_700 * SECOND),
        Some(7_300 * SECOND),
        Some(DAY),
        None,
    ];
    for (end, r) in ends.into_iter().zip(0..) {
        let until = end.map(|end| world.clock.after(end));
        table
            .insert(&Ticket {
                p: "p".into(),
                r,
                until,
            })
            .await
            .expect("a new entity");
    }
    world.clock.advance(3_800 * SECOND);
    // The first entry as another client may have written it: with a time that is not that of its key.
    let mut first = first_entry(&world).await;
    first.properties_mut().set("Until", world.clock.after(DAY));
    world
        .raw
        .write(&world.table, Operation::InsertOrReplace(first))
        .await
        .expect("a planted time");
    assert_eq!(world.sweep().await.removed, 3);
    let left = table
        .clone()
        .with_hidden()
        .query()
        .all()
        .await
        .expect("a query");
    assert_eq!(left.iter().map(|one| one.r).collect::<Vec<_>>(), [3, 4, 5]);

    // Without its entry an expired entity is not found: the sweep does not scan the table.
    let day = world.clock.after(DAY);
    let first = first_entry(&world).await.key().clone();
    world
        .raw
        .write(&world.table, Operation::Delete(first, IfMatch::Any))
        .await
        .expect("a deletion");
    world.clock.advance(day.get() - world.clock.now().get());
    assert_eq!(world.sweep().await.removed, 1);
    assert_eq!(world.sweep().await.removed, 0);
    let scrubbed = table
        .entities()
        .await
        .expect("an open table")
        .scrub("end", ScrubMode::Repair)
        .await
        .expect("a scrub");
    assert_eq!(scrubbed.missing, 1);
    assert_eq!(world.sweep().await.removed, 1);
    let left = table
        .clone()
        .with_hidden()
        .query()
        .all()
        .await
        .expect("a query");
    assert_eq!(left.iter().map(|one| one.r).collect::<Vec<_>>(), [5]);
}
