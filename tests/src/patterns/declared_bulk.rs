//! Bulk inserts of entities with declared indexes, before and after the build of an index.

use std::sync::Arc;
use std::time::Duration;

use crate::open_table;
use futures_util::stream;
use table_core::adapter::{
    Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter, RetryPolicy, Retrying,
};
use table_core::prelude::*;
use table_core::store::{BulkOutcome, BulkSummary};
use table_patterns::Table;
use table_patterns::bulk::BulkTable as _;
use table_patterns::index::{BulkInsert, IndexOptions, IndexState, ScrubMode};
use table_patterns::journal::{Clearing, Timing};

use crate::Harness;
use crate::wrappers::LaterIsFaster;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Flight",
    rename_all = "PascalCase",
    row_key = "flight_{number:06}"
)]
#[index(delay, row_key = "delay_{delay}_{number:06}", payload = fields(plane))]
#[index(
    plane,
    partition_key = "plane_{plane}",
    row_key = "{carrier}_{number:06}"
)]
#[index(gate, row_key = "gate_{gate:06}", unique = "partition")]
struct Flight {
    #[partition_key]
    carrier: String,
    number: u32,
    plane: Option<String>,
    delay: i32,
    gate: Option<u32>,
}

/// Every carrier has three planes.
fn flight(number: u32) -> Flight {
    let carrier = if number.is_multiple_of(2) { "UA" } else { "DL" }.to_owned();
    let plane = Some(format!("{carrier}{}", number % 3));
    Flight {
        carrier,
        number,
        plane,
        delay: (number % 7) as i32 - 3,
        gate: None,
    }
}

async fn open(
    h: &Harness,
    table: TableName,
    built_later: &[&str],
) -> (Table<Flight>, RequestMeter) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
    let mut options = IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
    let request = Duration::from_millis(500);
    options.timing =
        Timing::new(Duration::from_secs(60), request, Duration::ZERO).expect("a long lease");
    options.cache = Duration::from_millis(if built_later.is_empty() { 10_000 } else { 200 });
    options.built_later = built_later.iter().map(|name| (*name).to_owned()).collect();
    (
        open_table(store, table, options).await.expect("a table"),
        meter,
    )
}

async fn insert(flights: &Table<Flight>, all: Vec<Flight>) -> BulkSummary {
    let inserts = flights.bulk().insert_all(stream::iter(all));
    inserts.await.expect("the input is sound")
}

async fn assert_in_step(flights: &Table<Flight>, entries: usize) {
    for index in ["delay", "plane"] {
        let report = flights
            .entities()
            .await
            .expect("an open table")
            .scrub(index, ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!(report.entries, entries, "{index}");
        assert_eq!(report.dangling, 0, "{index}");
        assert_eq!(report.missing, 0, "{index}");
    }
}

/// Groups are as full as possible and affect few remote partitions.
pub(crate) async fn groups_hold_entities_with_their_entries(h: &Harness) {
    let (flights, meter) = open(h, h.unused_name(), &[]).await;
    let before = meter.total();
    let summary = insert(&flights, (0..196).map(flight).collect()).await;
    assert_eq!(summary.written, 196, "{summary:?}");
    assert_eq!(summary.pending, 0, "{summary:?}");
    assert_eq!(summary.requests, 4, "{summary:?}");
    // Each carrier has 98 flights. A group has 49 flights with their local entries and a journal row: 99
    // operations. The three planes of a carrier are spread over two groups; one plane is in both groups.
    let elsewhere = 2 * 4;
    assert_eq!(meter.total() - before, 4 + elsewhere + 196 + 4);
    assert_in_step(&flights, 196).await;
    let early = flights
        .by(Flight::by_delay("UA").delay_in(..0))
        .count()
        .await
        .expect("entries");
    assert_eq!(
        early,
        (0..196)
            .map(flight)
            .filter(|f| f.carrier == "UA" && f.delay < 0)
            .count()
    );
}

/// An entity that cannot be written does not prevent the writes of the others.
pub(crate) async fn a_failed_entity_does_not_affect_others(h: &Harness) {
    let (flights, _) = open(h, h.unused_name(), &[]).await;
    let taken = |number, gate| Flight {
        gate: Some(gate),
        ..flight(number)
    };
    flights.insert(&taken(1000, 7)).await.expect("a new flight");
    let mut all: Vec<_> = (0..40).map(|n| flight(2 * n)).collect();
    all.push(flight(1000));
    all.push(taken(1002, 7));
    let summary = insert(&flights, all).await;
    assert_eq!(summary.written, 40, "{summary:?}");
    assert_eq!(summary.failed, 2, "{summary:?}");
    assert_eq!(summary.ambiguous, 0, "{summary:?}");
    let failed = |failure: &BulkOutcome| {
        (
            failure.key.row().to_owned(),
            failure.result.clone().unwrap_err(),
        )
    };
    let mut failures: Vec<_> = summary.failures.iter().map(failed).collect();
    failures.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(failures[0].0, "flight_001000");
    assert!(failures[0].1.is_already_exists(), "{}", failures[0].1);
    assert_eq!(failures[1].0, "flight_001002");
    assert!(failures[1].1.is_unique_violation(), "{}", failures[1].1);
    assert_in_step(&flights, 41).await;
}

/// Entities of one key are written in the order of the input, also by windows and groups that are in flight together, and with
/// repeated requests: of inserts the first is stored, of changes the last.
pub(crate) async fn entities_of_a_key_are_written_in_their_order(h: &Harness) {
    const FLIGHTS: u32 = 20;
    let table = h.unused_name();
    let faults = FaultInjector::new(7);
    let throttled = Fault::Throttle {
        retry_after: Some(Duration::from_millis(1)),
    };
    faults.add(FaultRule::new(throttled).every(5));
    let slow = Arc::new(LaterIsFaster::new(h.store().clone()));
    let store = Retrying::new(Faulty::new(slow.clone(), faults), RetryPolicy::default());
    let options = IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
    let flights = open_table::<Flight>(store, table, options)
        .await
        .expect("a table");
    let all = (0..5).flat_map(|round| {
        (0..FLIGHTS).map(move |number| Flight {
            delay: round,
            ..flight(number)
        })
    });
    let all: Vec<_> = all.collect();
    let options = BulkInsert::default().with_concurrency(8).with_window(7);
    for options in [options, options.with_window(1000)] {
        flights.query().delete().await.expect("a deletion");
        slow.begin_again();
        let entities = flights.entities().await.expect("an open table");
        let rows = stream::iter(all.iter().map(TableEntity::to_entity).collect::<Vec<_>>());
        let inserts = entities.insert_all(rows, options);
        let summary = BulkSummary::of(inserts).await.expect("the input is sound");
        assert_eq!((summary.written, summary.failed), (20, 80), "{summary:?}");
        assert_delays(&flights, 0).await;
    }
    slow.begin_again();
    let rows = stream::iter(all.into_iter().map(|flight| flight.to_entity()));
    let changes =
        flights
            .entities()
            .await
            .expect("an open table")
            .modify_all(rows, options, |_, row| Ok(row.clone()));
    let summary = BulkSummary::of(changes).await.expect("the input is sound");
    assert_eq!((summary.written, summary.failed), (100, 0), "{summary:?}");
    assert_delays(&flights, 4).await;
    assert_in_step(&flights, FLIGHTS as usize).await;
}

async fn assert_delays(flights: &Table<Flight>, delay: i32) {
    let stored = flights.query().all().await.expect("flights");
    assert!(
        stored.iter().all(|flight| flight.delay == delay),
        "{stored:?}"
    );
}

/// An index that is absent during the load is built while writers continue.
pub(crate) async fn an_absent_index_is_built_after_the_load(h: &Harness) {
    let (flights, _) = open(h, h.unused_name(), &["plane"]).await;
    assert_eq!(
        flights
            .entities()
            .await
            .expect("an open table")
            .state("plane"),
        IndexState::Absent
    );
    let summary = insert(&flights, (0..60).map(flight).collect()).await;
    assert_eq!(summary.written, 60, "{summary:?}");
    assert_eq!(summary.requests, 2, "{summary:?}");
    let absent = flights.by(Flight::by_plane("UA0")).all().await.unwrap_err();
    assert!(absent.to_string().contains("call `build`"), "{absent}");

    let mut states = Vec::new();
    let build = flights
        .entities()
        .await
        .expect("an open table")
        .build("plane")
        .expect("a declared index");
    let build = build.on_progress(|progress| states.push(progress.state));
    let (done, late) = tokio::join!(build.run(), async {
        // A writer continues during the build.
        flights.insert(&flight(60)).await
    });
    assert!(!late.expect("a new flight").pending);
    assert!(done.expect("a build").entries >= 60);
    assert_eq!(states.last(), Some(&IndexState::Readable));
    let of_plane = flights
        .by(Flight::by_plane("UA0"))
        .all()
        .await
        .expect("entries");
    assert_eq!(
        of_plane.len(),
        (0..=60)
            .map(flight)
            .filter(|f| f.plane.as_deref() == Some("UA0"))
            .count()
    );
    assert_in_step(&flights, 61).await;
}
