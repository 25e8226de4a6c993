//! Series of values in fixed slots.

use std::sync::Arc;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use table_core::adapter::{
    CrashPoint, Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter,
};
use table_core::model::{Entity, Key, Ticks};
use table_core::store::{Operation, OperationKind};
use table_core::typed::{Json, Plain, PropertyGroup};
use table_patterns::series::{
    DataSeries, Days, Enumerated, Grouped, Hours, Numbered, SlotCodec, SlotSet,
};
use tokio::task::JoinSet;

use super::log_tail::{declare_index_of_alarms, declare_index_of_any};
use crate::{Harness, TestTable};

pub(super) fn today() -> Key {
    Key::new("Sales", "empid_000223_2013-01-15").expect("a legal key")
}

pub(super) fn open<S: SlotSet, V: Send + Sync, C: SlotCodec<V>>(
    table: &TestTable,
    slots: S,
) -> DataSeries<S, V, C> {
    DataSeries::with_codec(table.store().clone(), table.name().clone(), slots)
        .expect("distinct slots")
}

fn metered<S: SlotSet, V: Send + Sync, C: SlotCodec<V>>(
    table: &TestTable,
    slots: S,
) -> (DataSeries<S, V, C>, RequestMeter) {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(table.store().clone(), meter.clone()));
    (
        DataSeries::with_codec(store, table.name().clone(), slots).expect("distinct slots"),
        meter,
    )
}

/// A day of hours: an update is one merge, a read is one request. A missing value differs from zero.
pub(crate) async fn a_day_is_one_entity(harness: &Harness) {
    let table = harness.table().await;
    let (messages, meter) = metered::<Hours, i32, Plain>(&table, Hours);
    assert!(
        messages
            .get(&today())
            .await
            .expect("no value yet")
            .is_empty()
    );
    meter.reset();
    messages.set(&today(), 9, &12).await.expect("an hour");
    messages.set(&today(), 10, &0).await.expect("an hour");
    messages.set(&today(), 9, &13).await.expect("an hour");
    assert_eq!(meter.total(), 3);
    let (day, cost) = meter.measure(messages.get(&today())).await;
    let day = day.expect("a day");
    assert_eq!(cost.total(), 1);
    assert_eq!(day[9], Some(13));
    assert_eq!(day[10], Some(0));
    assert_eq!(day[11], None);
    assert_eq!(day.iter().collect::<Vec<_>>(), [(9, &13), (10, &0)]);
    assert_eq!(
        messages.get_slot(&today(), 10).await.expect("an hour"),
        Some(0)
    );
    assert_eq!(
        messages.get_slot(&today(), 11).await.expect("an hour"),
        None
    );
    let row = table.existing(&today()).await;
    assert_eq!(row.get("H09"), Some(table_core::model::ValueRef::Int32(13)));
    let error = messages
        .set(&today(), 24, &1)
        .await
        .expect_err("a day has 24 hours");
    assert!(error.to_string().contains("24"), "{error}");
}

/// A year of days continues in a second row. An update is still one merge, a read is one query.
pub(crate) async fn a_year_continues_in_a_second_row(harness: &Harness) {
    let table = harness.table().await;
    let (flights, meter) =
        metered::<Days, i64, Plain>(&table, Days::of_year(2012).expect("a year"));
    let key = Key::new("JFK", "2012").expect("a legal key");
    let day = |month, day| NaiveDate::from_ymd_opt(2012, month, day).expect("a day");
    let days: Vec<_> = (0..366)
        .map(|n| (flights.slots().slot(n), n as i64))
        .collect();
    flights.set_many(&key, days.clone()).await.expect("a year");
    flights.set(&key, day(12, 31), &-1).await.expect("a day");
    assert_eq!(meter.total(), 2);
    let (year, cost) = meter.measure(flights.get(&key)).await;
    let year = year.expect("a year");
    assert_eq!(cost.total(), 1);
    assert_eq!(year.values().len(), 366);
    assert_eq!(year.get(&day(2, 29)), Some(&59));
    assert_eq!(year.get(&day(12, 31)), Some(&-1));
    assert_eq!(
        year.get(&NaiveDate::from_ymd_opt(2013, 1, 1).expect("a day")),
        None
    );
    assert!(table.get(&key).await.is_some());
    assert!(
        table
            .get(&Key::new("JFK", "2012!000001").expect("a legal key"))
            .await
            .is_some()
    );

    for other in [
        "2012 ",
        "2012!000000",
        "2012!1",
        "2012!000001x",
        "20121",
        "2012_1",
    ] {
        let note = Entity::new("JFK", other)
            .expect("a legal key")
            .with("D001", "not of this series");
        table.put(Operation::Insert(note)).await;
    }
    assert_eq!(flights.get(&key).await.expect("a year")[0], Some(0));
    assert!(flights.delete(&key).await.expect("the row exists"));
    assert!(!flights.delete(&key).await.expect("the table is gone"));
    assert!(flights.get(&key).await.expect("nothing").is_empty());
}

/// Concurrent tasks update all slots. No task waits for another, and no update is lost.
pub(crate) async fn slots_are_updated_concurrently(harness: &Harness) {
    let table = harness.table().await;
    let (minutes, meter) = metered::<Numbered, i32, Plain>(&table, Numbered::new("M", 300));
    let mut tasks = JoinSet::new();
    for slot in 0..300 {
        let minutes = minutes.clone();
        tasks.spawn(async move { minutes.set(&today(), slot, &(slot as i32)).await });
    }
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    assert_eq!(meter.total(), 300);
    let all = minutes.get(&today()).await.expect("a series");
    assert!((0..300).all(|slot| all[slot] == Some(slot as i32)));
}

/// Counters lose no update, whatever other counters in the same row change.
pub(crate) async fn counters_lose_no_update(harness: &Harness) {
    let table = harness.table().await;
    let counts = open::<Hours, u32, Plain>(&table, Hours).with_attempts(1000);
    let tasks = harness.scale().tasks.min(16) as u32;
    let mut counting = JoinSet::new();
    for task in 0..tasks {
        let counts = counts.clone();
        counting.spawn(async move { counts.add(&today(), task % 2, 1).await });
    }
    assert!(counting.join_all().await.iter().all(Result::is_ok));
    let sum = counts.get(&today()).await.expect("a series");
    assert_eq!(sum[0], Some(tasks / 2));
    assert_eq!(sum[1], Some(tasks / 2));

    let (counts, meter) = metered::<Hours, u32, Plain>(&table, Hours);
    assert_eq!(counts.add(&today(), 5, 7).await.expect("a new counter"), 7);
    assert_eq!(meter.total(), 2);
    counts.set(&today(), 6, &u32::MAX).await.expect("a number");
    let error = counts
        .add(&today(), 6, 1)
        .await
        .expect_err("the counter would overflow");
    assert!(error.to_string().contains("H06"), "{error}");
}

/// A slot can be cleared. The last cleared slot removes the row.
pub(crate) async fn a_slot_is_cleared(harness: &Harness) {
    let table = harness.table().await;
    let (days, meter) = metered::<Hours, bool, Plain>(&table, Hours);
    days.set_many(&today(), [(1, true), (2, false)])
        .await
        .expect("two hours");
    assert_eq!(meter.total(), 1);
    let (cleared, cost) = meter.measure(days.clear(&today(), 1)).await;
    assert!(cleared.expect("the slot was set"));
    assert_eq!(cost.total(), 2);
    assert!(!days.clear(&today(), 1).await.expect("the slot is missing"));
    assert_eq!(
        days.get(&today()).await.expect("a series").values()[1..3],
        [None, Some(false)]
    );
    assert!(days.clear(&today(), 2).await.expect("the slot was set"));
    assert_eq!(table.get(&today()).await, None);
    assert!(!days.delete(&today()).await.expect("the table is gone"));
}

#[derive(Clone, Copy, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Wind {
    speed: f64,
    gusts: bool,
    measured: Ticks,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    text: String,
    by: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shift {
    Early,
    Late,
}

/// Values are numbers, times, or small structs by field or as JSON. The program defines the slots.
pub(crate) async fn values_are_small_structs(harness: &Harness) {
    let table = harness.table().await;
    let winds = open::<Hours, Wind, Grouped>(&table, Hours);
    let calm = Wind {
        speed: 1.5,
        gusts: false,
        measured: "2013-01-15T07:00:00Z".parse().expect("a time"),
    };
    winds.set(&today(), 7, &calm).await.expect("an hour");
    winds
        .set(
            &today(),
            8,
            &Wind {
                gusts: true,
                ..calm
            },
        )
        .await
        .expect("an hour");
    let day = winds.get(&today()).await.expect("a day");
    assert_eq!(day[7], Some(calm));
    assert_eq!(day[8].map(|wind| wind.gusts), Some(true));
    assert_eq!(day[9], None);
    let row = table.existing(&today()).await;
    assert_eq!(
        row.get("H07Speed"),
        Some(table_core::model::ValueRef::Double(1.5))
    );

    let key = Key::new("Sales", "notes").expect("a legal key");
    let shifts = Enumerated::new(&[(Shift::Early, "Early"), (Shift::Late, "Late")]);
    let notes = open::<Enumerated<Shift>, Note, Json>(&table, shifts);
    let note = Note {
        text: "quiet".to_owned(),
        by: None,
    };
    notes.set(&key, Shift::Late, &note).await.expect("a shift");
    let read = notes.get(&key).await.expect("notes");
    assert_eq!(read.get(&Shift::Early), None);
    assert_eq!(read.get(&Shift::Late), Some(&note));
}

/// A row has fewer slots for long texts, so that no row exceeds the limits. Slots with equal property names are
/// refused.
pub(crate) async fn rows_stay_within_the_limits(harness: &Harness) {
    let table = harness.table().await;
    let texts = open::<Numbered, String, Plain>(&table, Numbered::new("T", 40));
    let long = "x".repeat(32 * 1024);
    for slot in 0..40 {
        texts
            .set(&today(), slot, &long)
            .await
            .expect("the longest text there is");
    }
    let all = texts.get(&today()).await.expect("a series");
    assert!(
        all.values()
            .iter()
            .all(|text| text.as_ref().is_some_and(|text| *text == long))
    );

    let twice = Enumerated::new(&[(1, "One"), (2, "One")]);
    let store = table.store().clone();
    let error =
        DataSeries::<_, i32>::new(store, table.name().clone(), twice).expect_err("one property");
    assert!(error.to_string().contains("One"), "{error}");
}

/// A series of more than a thousand rows returns all slots, whichever row holds them.
pub(crate) async fn more_than_a_thousand_rows_keep_every_slot(harness: &Harness) {
    let table = harness.table().await;
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(table.store().clone(), meter.clone()));
    let slots = Numbered::new("M", 1001);
    let minutes =
        DataSeries::<_, i32>::new(store, table.name().clone(), slots).expect("distinct slots");
    let minutes = minutes.with_slots_per_row(1).expect("a row each");
    let set = [0, 9, 101, 500, 999, 1000];
    for slot in set {
        minutes
            .set(&today(), slot, &(slot as i32))
            .await
            .expect("a minute");
    }
    let row = Key::new("Sales", format!("{}!000101", today().row())).expect("a key");
    assert!(table.get(&row).await.is_some());
    let (all, cost) = meter.measure(minutes.get(&today())).await;
    let all = all.expect("a series");
    assert_eq!(cost.total(), 1, "a page");
    let found: Vec<_> = all.iter().map(|(slot, value)| (slot, *value)).collect();
    assert_eq!(found, set.map(|slot| (slot, slot as i32)));
    assert!(minutes.delete(&today()).await.expect("the row exists"));
    for slot in set {
        assert_eq!(
            minutes.get_slot(&today(), slot).await.expect("a minute"),
            None
        );
    }

    // A deletion of more rows than one group transaction holds sends several groups.
    minutes
        .set_many(&today(), (0..100).map(|slot| (slot, 1)))
        .await
        .expect("a hundred rows");
    minutes.set(&today(), 1000, &1).await.expect("one more row");
    let (deleted, cost) = meter.measure(minutes.delete(&today())).await;
    assert!(deleted.expect("the row exists"));
    assert_eq!(cost.total(), 3, "a page and two groups");
    assert!(minutes.get(&today()).await.expect("nothing").is_empty());
}

/// A deletion whose answer was lost is ambiguous; repeated, it finds nothing.
pub(crate) async fn a_deletion_with_a_lost_answer_is_ambiguous(harness: &Harness) {
    let table = harness.table().await;
    let faults = FaultInjector::new(0);
    let store = Faulty::new(table.store().clone(), faults.clone());
    let sales =
        DataSeries::<Hours, i64>::new(store, table.name().clone(), Hours).expect("distinct slots");
    sales.set(&today(), 9, &4).await.expect("an hour");
    faults.add(
        FaultRule::new(Fault::LoseAnswer)
            .on(OperationKind::Delete)
            .nth(1),
    );
    let error = sales
        .delete(&today())
        .await
        .expect_err("the answer is lost");
    assert!(error.is_ambiguous(), "{error}");
    assert_eq!(faults.injected().len(), 1);
    assert!(!sales.delete(&today()).await.expect("nothing is left"));
}

/// The slots of a row fit the limit of properties: for values with several fields, and with the properties that
/// adapters add.
pub(crate) async fn the_slots_of_a_row_fit_its_properties(harness: &Harness) {
    let table = harness.table().await;
    let winds = || open::<Days, Wind, Grouped>(&table, Days::of_year(2013).expect("a year"));
    for refused in [0, 83, 248] {
        let error = winds()
            .with_slots_per_row(refused)
            .expect_err("three properties a slot");
        assert!(error.is_limit_exceeded(), "{error}");
        assert!(error.to_string().contains("82"), "{error}");
    }
    let winds = winds().with_slots_per_row(82).expect("246 properties");
    let calm = Wind {
        speed: 1.5,
        gusts: false,
        measured: "2013-01-15T07:00:00Z".parse().expect("a time"),
    };
    let days: Vec<_> = (0..365)
        .map(|day| (winds.slots().slot(day), calm))
        .collect();
    winds.set_many(&today(), days).await.expect("a year");
    assert_eq!(table.existing(&today()).await.properties().len(), 246);
    assert!(
        winds
            .get(&today())
            .await
            .expect("a year")
            .values()
            .iter()
            .all(|day| *day == Some(calm))
    );
    assert!(
        winds.clone().with_slots_per_row(10).is_err(),
        "a clone shares the layout"
    );

    // Declared short texts allow more slots per row than texts of the maximum length.
    let texts = open::<Numbered, String, Plain>(&table, Numbered::new("T", 200));
    let texts = texts.with_slots_per_row(200).expect("200 properties");
    let key = Key::new("Sales", "texts").expect("a key");
    texts
        .set_many(&key, (0..200).map(|slot| (slot, slot.to_string())))
        .await
        .expect("short texts");
    assert!(
        table.get(&key).await.is_some(),
        "one row, under the key itself"
    );
    assert_eq!(
        texts.get(&key).await.expect("texts")[199].as_deref(),
        Some("199")
    );
}

/// A clear, a deletion or an update that crashes at any request leaves the series in its old or its new state.
/// A second run leaves the new state.
pub(crate) async fn a_crashed_write_takes_effect_or_not(harness: &Harness) {
    let mut crashes = 0;
    for step in 0..4 {
        for point in CrashPoint::ALL {
            for request in 1.. {
                let table = harness.table().await;
                let slots = || Numbered::new("M", 300);
                let healthy = open::<_, i32, Plain>(&table, slots());
                healthy
                    .set_many(&today(), [(1, 1), (299, 9)])
                    .await
                    .expect("a series of two rows");
                let faults = FaultInjector::new(0);
                let store = Arc::new(Faulty::new(table.store().clone(), faults.clone()));
                let crashing =
                    DataSeries::new(store, table.name().clone(), slots()).expect("a series");
                faults.crash_at(request, point);
                let answer = act(&crashing, step).await;
                let wanted: &[_] = [
                    &[(299, 9)][..],
                    &[],
                    &[(1, 1), (299, 10)],
                    &[(1, 5), (299, 5)],
                ][step];
                let left = values(&healthy).await;
                let case = format!("step {step}, {point:?} at {request}: {left:?}");
                assert!(
                    left == wanted || (left == [(1, 1), (299, 9)] && answer.is_err()),
                    "{case}"
                );
                if left != wanted {
                    act(&healthy, step).await.expect("the second run succeeds");
                }
                assert_eq!(values(&healthy).await, wanted, "{case}");
                if !faults.is_crashed() {
                    break;
                }
                crashes += 1;
            }
        }
    }
    assert_eq!(crashes, 2 * (2 + 2 + 2 + 1));
}

/// Clears a slot, deletes the series, counts, or sets slots of two rows.
async fn act(series: &DataSeries<Numbered, i32>, step: usize) -> table_core::Result<()> {
    match step {
        0 => series.clear(&today(), 1).await.map(drop),
        1 => series.delete(&today()).await.map(drop),
        2 => series.add(&today(), 299, 1).await.map(drop),
        _ => series.set_many(&today(), [(1, 5), (299, 5)]).await,
    }
}

pub(super) async fn values(series: &DataSeries<Numbered, i32>) -> Vec<(usize, i32)> {
    let all = series.get(&today()).await.expect("a series");
    all.iter().map(|(slot, value)| (slot, *value)).collect()
}

/// Writes succeed if an index is of another type. An index of entities of any type makes the series refuse each
/// write without a change.
pub(crate) async fn writes_are_refused_over_an_index_of_any_type(harness: &Harness) {
    let table = harness.table().await;
    let messages = open::<Hours, i32, Plain>(&table, Hours);
    declare_index_of_alarms(table.store(), table.name()).await;
    messages
        .set(&today(), 9, &12)
        .await
        .expect("an index of another type");
    messages
        .set_many(&today(), [(10, 1), (11, 2)])
        .await
        .expect("the same");
    assert!(messages.clear(&today(), 11).await.expect("the same"));
    declare_index_of_any(table.store(), table.name()).await;
    let refused = [
        messages.set(&today(), 9, &13).await,
        messages.set_many(&today(), [(10, 3)]).await,
        messages.modify(&today(), 9, |_| Ok(14)).await.map(drop),
        messages.clear(&today(), 9).await.map(drop),
        messages.delete(&today()).await.map(drop),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let error = refused
            .expect_err("an index of any type refuses the append")
            .to_string();
        assert!(error.contains("'amount."), "write {number}: {error}");
    }
    let day = messages.get(&today()).await.expect("a day");
    assert_eq!(day[9], Some(12));
    assert_eq!(day[10], Some(1));
    assert_eq!(day[11], None);
}

/// A growing set of slots keeps the stored values: with one more digit, one more row, more than a thousand
/// rows.
pub(crate) async fn a_growing_set_of_slots_keeps_its_values(harness: &Harness) {
    let table = harness.table().await;
    let mut before = Vec::new();
    for count in [1, 9, 11, 99, 101, 248, 249, 1001] {
        let numbers = open::<Numbered, i32, Plain>(&table, Numbered::new("M", count));
        assert_eq!(values(&numbers).await, before, "{count}");
        numbers.add(&today(), 0, 1).await.expect("a number");
        numbers
            .set(&today(), count - 1, &(count as i32))
            .await
            .expect("a number");
        before = values(&numbers).await;
        assert_eq!(
            numbers
                .get_slot(&today(), count - 1)
                .await
                .expect("a number"),
            Some(count as i32)
        );
    }
    assert_eq!(before.len(), 8);
    assert_eq!(before[0], (0, 8));
    let all = open::<Numbered, i32, Plain>(&table, Numbered::new("M", 1001));
    assert!(all.delete(&today()).await.expect("the row exists"));
    assert_eq!(values(&all).await, []);

    // A row holds fifteen texts of the maximum length, whatever the lengths of the property names.
    let texts = |count| open::<Numbered, String, Plain>(&table, Numbered::new("Text", count));
    let long = "x".repeat(32 * 1024);
    for slot in 0..100 {
        texts(slot + 1)
            .set(&today(), slot, &long)
            .await
            .expect("the longest text there is");
    }
    let all = texts(1001).get(&today()).await.expect("a series");
    assert_eq!(all.iter().count(), 100);

    for rows in [1000, 1001] {
        let wide = open::<Numbered, i32, Plain>(&table, Numbered::new("W", rows));
        let wide = wide.with_slots_per_row(1).expect("a row each");
        wide.set(&today(), rows - 1, &1).await.expect("a number");
        assert_eq!(
            wide.get(&today()).await.expect("a series").iter().count(),
            rows - 999
        );
    }
    let rows =
        open::<Numbered, i32, Plain>(&table, Numbered::new("W", 1_000_001)).with_slots_per_row(1);
    assert!(rows.is_err_and(|error| error.is_limit_exceeded()));
}

/// Booleans and times are values. `false` and the earliest time differ from a missing value.
pub(crate) async fn values_are_booleans_and_times(harness: &Harness) {
    let table = harness.table().await;
    let open_hours = open::<Hours, bool, Plain>(&table, Hours);
    open_hours
        .set_many(&today(), [(8, true), (12, false)])
        .await
        .expect("two hours");
    let turned = open_hours
        .modify(&today(), 12, |open| Ok(!open.expect("the slot is set")))
        .await;
    assert!(turned.expect("an hour"));
    open_hours.set(&today(), 8, &false).await.expect("an hour");
    let day = open_hours.get(&today()).await.expect("a day");
    assert_eq!(day.iter().collect::<Vec<_>>(), [(8, &false), (12, &true)]);
    assert_eq!(day[9], None);
    assert_eq!(
        open_hours.get_slot(&today(), 9).await.expect("an hour"),
        None
    );

    let key = Key::new("Sales", "first_seen").expect("a legal key");
    let seen = open::<Days, Ticks, Plain>(&table, Days::of_year(2012).expect("a year"));
    let slot = |n: usize| seen.slots().slot(n);
    let times = [
        "1601-01-01T00:00:00Z",
        "2012-06-01T07:30:00.1234567Z",
        "2012-12-31T23:59:59.9999999Z",
    ];
    let times = times.map(|time| time.parse::<Ticks>().expect("a time"));
    seen.set_many(&key, [(slot(0), times[0]), (slot(365), times[2])])
        .await
        .expect("two days");
    let later = seen
        .modify(&key, slot(152), |time| Ok(time.unwrap_or(times[1])))
        .await;
    assert_eq!(later.expect("a day"), times[1]);
    let year = seen.get(&key).await.expect("a year");
    assert_eq!(
        year.iter().map(|(_, time)| *time).collect::<Vec<_>>(),
        times
    );
    assert!(seen.clear(&key, slot(0)).await.expect("the slot was set"));
    assert_eq!(seen.get(&key).await.expect("a year")[0], None);
    let error = open::<Days, i64, Plain>(&table, Days::of_year(2012).expect("a year"))
        .get(&key)
        .await;
    assert!(
        error.is_err_and(|error| error.to_string().contains("D153")),
        "times are not numbers"
    );
}
