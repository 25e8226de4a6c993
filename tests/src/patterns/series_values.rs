//! Series with growing sets of slots, and values that are not numbers.

use table_core::model::{Key, Ticks};
use table_core::typed::Plain;
use table_patterns::series::{Days, Hours, Numbered, SlotSet};

use super::series::{open, today, values};
use crate::Harness;

/// A growing set of slots keeps the stored values: with one more digit, one more row, more than a thousand
/// rows.
pub(crate) async fn a_growing_set_of_slots_keeps_its_values(harness: &Harness) {
    let table = harness.table().await;
    let mut before = Vec::new();
    for count in [1, 9, 11, 99, 101, 248, 249, 1001] {
        let numbers = open::<Numbered, i32, Plain>(&table, Numbered::new("M", count));
        assert_eq!(values(&numbers).await, before, "{count}");
        numbers.add(&today(), 0, 1).await.expect("a number");
        numbers.set(&today(), count - 1, &(count as i32)).await.expect("a number");
        before = values(&numbers).await;
        assert_eq!(numbers.get_slot(&today(), count - 1).await.expect("a number"), Some(count as i32));
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
        texts(slot + 1).set(&today(), slot, &long).await.expect("the longest text there is");
    }
    let all = texts(1001).get(&today()).await.expect("a series");
    assert_eq!(all.iter().count(), 100);

    for rows in [1000, 1001] {
        let wide = open::<Numbered, i32, Plain>(&table, Numbered::new("W", rows));
        let wide = wide.with_slots_per_row(1).expect("a row each");
        wide.set(&today(), rows - 1, &1).await.expect("a number");
        assert_eq!(wide.get(&today()).await.expect("a series").iter().count(), rows - 999);
    }
    let rows = open::<Numbered, i32, Plain>(&table, Numbered::new("W", 1_000_001)).with_slots_per_row(1);
    assert!(rows.is_err_and(|error| error.is_limit_exceeded()));
}

/// Booleans and times are values. `false` and the earliest time differ from a missing value.
pub(crate) async fn values_are_booleans_and_times(harness: &Harness) {
    let table = harness.table().await;
    let open_hours = open::<Hours, bool, Plain>(&table, Hours);
    open_hours.set_many(&today(), [(8, true), (12, false)]).await.expect("two hours");
    let turned = open_hours.modify(&today(), 12, |open| Ok(!open.expect("the slot is set"))).await;
    assert!(turned.expect("an hour"));
    open_hours.set(&today(), 8, &false).await.expect("an hour");
    let day = open_hours.get(&today()).await.expect("a day");
    assert_eq!(day.iter().collect::<Vec<_>>(), [(8, &false), (12, &true)]);
    assert_eq!(day[9], None);
    assert_eq!(open_hours.get_slot(&today(), 9).await.expect("an hour"), None);

    let key = Key::new("Sales", "first_seen").expect("a legal key");
    let seen = open::<Days, Ticks, Plain>(&table, Days::of_year(2012).expect("a year"));
    let slot = |n: usize| seen.slots().slot(n);
    let times = ["1601-01-01T00:00:00Z", "2012-06-01T07:30:00.1234567Z", "2012-12-31T23:59:59.9999999Z"];
    let times = times.map(|time| time.parse::<Ticks>().expect("a time"));
    seen.set_many(&key, [(slot(0), times[0]), (slot(365), times[2])]).await.expect("two days");
    let later = seen.modify(&key, slot(152), |time| Ok(time.unwrap_or(times[1]))).await;
    assert_eq!(later.expect("a day"), times[1]);
    let year = seen.get(&key).await.expect("a year");
    assert_eq!(year.iter().map(|(_, time)| *time).collect::<Vec<_>>(), times);
    assert!(seen.clear(&key, slot(0)).await.expect("the slot was set"));
    assert_eq!(seen.get(&key).await.expect("a year")[0], None);
    let error = open::<Days, i64, Plain>(&table, Days::of_year(2012).expect("a year")).get(&key).await;
    assert!(error.is_err_and(|error| error.to_string().contains("D153")), "times are not numbers");
}
