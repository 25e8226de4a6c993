//! Random operations on patterns that order entities by time or slot, compared with models.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use fastrand::Rng;
use futures_util::TryStreamExt;
use table_core::model::{Key, PartitionKey, Ticks};
use table_core::typed::{PropertyGroup, TableEntity};
use table_patterns::log_tail::{EntryId, LogTail, Logged};
use table_patterns::series::{DataSeries, Numbered};
use table_patterns::time_slices::{Every, TimeSlices};

use crate::Harness;

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
struct Note {
    number: i32,
}

fn minute(n: i64) -> Ticks {
    let start: Ticks = "2013-01-15T08:00:00Z".parse().expect("a time");
    start + TimeDelta::minutes(n)
}

fn numbers(entries: &[Logged<Note>]) -> Vec<i32> {
    entries.iter().map(|entry| entry.value.number).collect()
}

fn steps(harness: &Harness) -> usize {
    harness.scale().steps.min(400)
}

/// A log, compared with a list sorted by time, then by order of appends, newest first.
pub(crate) async fn a_log_is_a_sorted_list(harness: &Harness) {
    let table = harness.table().await;
    let of = PartitionKey::new("log").expect("a legal key");
    let log = LogTail::<Note>::new(table.store().clone(), table.name().clone(), of).expect("a log");
    let (mut rng, mut model) = (
        Rng::with_seed(71),
        Vec::<(Reverse<(Ticks, i32)>, EntryId)>::new(),
    );
    for step in 0..steps(harness) as i32 {
        let at = minute(rng.i64(0..20));
        let newest = |model: &[(Reverse<(Ticks, i32)>, EntryId)], from: usize, to: usize| {
            model
                .iter()
                .skip(from)
                .take(to)
                .map(|(Reverse((_, n)), _)| *n)
                .collect::<Vec<_>>()
        };
        match rng.u8(..6) {
            0..3 => {
                let id = log
                    .append_at(at, &Note { number: step })
                    .await
                    .expect("a new entry");
                model.push((Reverse((at, step)), id));
                model.sort_by_key(|(order, _)| *order);
            }
            3 => {
                let n = rng.usize(..12);
                assert_eq!(
                    numbers(&log.latest(n).await.expect("entries")),
                    newest(&model, 0, n)
                );
            }
            4 if !model.is_empty() => {
                let from = rng.usize(..model.len());
                let page = log.page(Some(&model[from].1), 7).await.expect("a page");
                assert_eq!(numbers(&page), newest(&model, from + 1, 7), "step {step}");
            }
            _ => {
                let before = minute(rng.i64(0..25));
                let found: Vec<_> = log
                    .between(at, before)
                    .try_collect()
                    .await
                    .expect("entries");
                let wanted = model
                    .iter()
                    .filter(|(Reverse((t, _)), _)| (at..before).contains(t));
                let wanted: Vec<_> = wanted.map(|(Reverse((_, n)), _)| *n).collect();
                assert_eq!(numbers(&found), wanted, "step {step}");
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, TableEntity)]
struct Login {
    #[entity(skip)]
    month: u32,
    #[partition_key]
    user: String,
    #[row_key]
    at: Ticks,
}

fn login(rng: &mut Rng) -> Login {
    let (month, day, hour) = (rng.u32(1..=6), rng.u32(1..=28), rng.u32(..24));
    let at = format!("2013-{month:02}-{day:02}T{hour:02}:00:00Z")
        .parse()
        .expect("a time");
    Login {
        month,
        user: ["kim", "ken", "adam"][rng.usize(..3)].to_owned(),
        at,
    }
}

fn first_of(month: u32) -> Ticks {
    format!("2013-{month:02}-01T00:00:00Z")
        .parse()
        .expect("a time")
}

/// A family of monthly tables, compared with a set ordered by month and key.
pub(crate) async fn slices_are_a_set_ordered_by_month(harness: &Harness) {
    let family = super::time_slices::family(harness);
    let logins = TimeSlices::new(
        harness.store().clone(),
        &family,
        Every::Month,
        |login: &Login| login.at,
    );
    let logins = logins.expect("a legal name");
    let (mut rng, mut model) = (Rng::with_seed(72), BTreeSet::new());
    let plain =
        |found: Vec<Login>| -> Vec<_> { found.into_iter().map(|l| (l.user, l.at)).collect() };
    for step in 0..steps(harness) / 2 {
        match rng.u8(..10) {
            0..5 => {
                let one = login(&mut rng);
                let done = logins.insert(&one).await;
                assert_eq!(done.is_ok(), model.insert(one), "step {step}: {done:?}");
            }
            5 => {
                let one = login(&mut rng);
                logins.upsert(&one).await.expect("an upsert");
                model.insert(one);
            }
            6 => {
                let one = login(&mut rng);
                let key = Login::key(&one.user, one.at).expect("a legal key");
                let found = logins.get(one.at, &key).await.expect("an answer");
                assert_eq!(found.is_some(), model.contains(&one), "step {step}");
            }
            7 if rng.u8(..6) == 0 => {
                let month = rng.u32(1..=3);
                logins.drop_before(first_of(month)).await.expect("slices");
                model.retain(|login| login.month >= month);
            }
            _ => {
                let (from, before) = (first_of(rng.u32(1..=6)), first_of(rng.u32(1..=7)));
                let found = logins
                    .query()
                    .from(from)
                    .before(before)
                    .all()
                    .await
                    .expect("logins");
                let wanted = model
                    .iter()
                    .filter(|login| login.at >= from && login.at < before);
                assert_eq!(
                    plain(found),
                    plain(wanted.cloned().collect()),
                    "step {step}"
                );
            }
        }
    }
    assert_eq!(logins.query().count().await.expect("a count"), model.len());
}

/// A series over two rows, compared with a map.
pub(crate) async fn a_series_is_a_map(harness: &Harness) {
    let table = harness.table().await;
    let slots = Numbered::new("M", 300);
    let series = DataSeries::<_, i32>::new(table.store().clone(), table.name().clone(), slots);
    let (series, key) = (
        series.expect("distinct slots"),
        Key::new("p", "r").expect("a legal key"),
    );
    let (mut rng, mut model) = (Rng::with_seed(73), BTreeMap::<usize, i32>::new());
    for step in 0..steps(harness) {
        // A few slots around the end of the first row, so that several operations change the same slot.
        let (slot, value) = (rng.usize(..40) * 7, rng.i32(0..1000));
        match rng.u8(..10) {
            0..3 => {
                series.set(&key, slot, &value).await.expect("a slot");
                model.insert(slot, value);
            }
            3 => {
                let many: Vec<_> = (0..rng.usize(..50))
                    .map(|_| (rng.usize(..300), rng.i32(0..9)))
                    .collect();
                series.set_many(&key, many.clone()).await.expect("slots");
                model.extend(many);
            }
            4 => {
                let sum = series.add(&key, slot, value).await.expect("a counter");
                assert_eq!(
                    sum,
                    *model
                        .entry(slot)
                        .and_modify(|old| *old += value)
                        .or_insert(value)
                );
            }
            5..8 => {
                let cleared = series.clear(&key, slot).await.expect("an answer");
                assert_eq!(cleared, model.remove(&slot).is_some(), "step {step}");
            }
            8 if rng.u8(..8) == 0 => {
                let deleted = series.delete(&key).await.expect("an answer");
                assert_eq!(deleted, !model.is_empty(), "step {step}");
                model.clear();
            }
            _ => {
                let all = series.get(&key).await.expect("a series");
                let all: BTreeMap<_, _> = all.iter().map(|(slot, value)| (slot, *value)).collect();
                assert_eq!(all, model, "step {step}");
                let one = series.get_slot(&key, slot).await.expect("an answer");
                assert_eq!(one, model.get(&slot).copied(), "step {step}");
            }
        }
    }
}
