//! Families of tables by time; old tables are dropped as a whole.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use chrono::{Datelike, Months, NaiveDate, NaiveTime, TimeDelta};
use futures_util::future::join_all;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::model::{IfMatch, TableName, Ticks};
use table_core::store::{ErrorKind, Operation, OperationKind, TableStore, TableStoreExt};
use table_core::typed::TableEntity;
use table_patterns::time_slices::{Every, Keep, Reuse, Slice, Slicing, TimeSlices};
use uuid::Uuid;

use super::log_tail::declare_index_of_any;
use crate::Harness;
use crate::wrappers::InFlightStore;

#[derive(Clone, Debug, PartialEq, TableEntity)]
pub(super) struct Login {
    #[partition_key]
    pub(super) user: String,
    #[row_key]
    pub(super) at: Ticks,
}

/// Returns the name of a family that no other behaviour uses.
pub(super) fn family(harness: &Harness) -> String {
    let family = format!("F{}x", &Uuid::new_v4().simple().to_string()[..12]);
    for month in 1..=12 {
        for suffix in ["", "G1"] {
            harness.clean_up(
                &format!("{family}2013{month:02}{suffix}")
                    .parse()
                    .expect("a legal name"),
            );
        }
    }
    family
}

pub(super) fn open(store: Arc<dyn TableStore>, family: &str) -> TimeSlices<Login> {
    TimeSlices::new(store, family, Every::Month, |login: &Login| login.at).expect("a legal name")
}

fn metered(harness: &Harness, family: &str) -> (TimeSlices<Login>, RequestMeter) {
    let meter = RequestMeter::new();
    (
        open(
            Arc::new(Metered::new(harness.store().clone(), meter.clone())),
            family,
        ),
        meter,
    )
}

pub(super) fn faulty(harness: &Harness, family: &str) -> (TimeSlices<Login>, FaultInjector) {
    let faults = FaultInjector::new(0);
    (
        open(
            Arc::new(Faulty::new(harness.store().clone(), faults.clone())),
            family,
        ),
        faults,
    )
}

pub(super) fn at(text: &str) -> Ticks {
    text.parse().expect("a time")
}

pub(super) fn login(user: &str, time: &str) -> Login {
    Login {
        user: user.to_owned(),
        at: at(&format!("2013-{time}:00Z")),
    }
}

/// Inserts logins of two users in each of the months 1 to 4.
pub(super) async fn fill(logins: &TimeSlices<Login>) -> Vec<Login> {
    let days = ["01-15T08:00", "02-15T08:00", "03-15T08:00", "04-15T08:00"];
    let all: Vec<Login> = days
        .iter()
        .flat_map(|day| [login("kim", day), login("ken", day)])
        .collect();
    for login in &all {
        logins.insert(login).await.expect("a new login");
    }
    all
}

pub(super) fn names(slices: &[Slice]) -> Vec<&str> {
    slices.iter().map(|slice| slice.name.as_str()).collect()
}

/// An insert creates the table of its time slice once; the handle remembers the table.
pub(crate) async fn an_insert_creates_its_table(harness: &Harness) {
    let family = family(harness);
    let (logins, meter) = metered(harness, &family);
    let day = login("ken", "01-15T08:00");
    logins.insert(&day).await.expect("a new login");
    assert_eq!(meter.total(), 3);
    logins
        .insert(&login("ken", "01-31T23:59"))
        .await
        .expect("a new login");
    assert_eq!(meter.total(), 4);
    let error = logins.insert(&day).await.expect_err("the row exists");
    assert!(error.is_already_exists(), "{error}");
    logins.upsert(&day).await.expect("an upsert");
    let key = Login::key("ken", day.at).expect("a legal key");
    let (found, cost) = meter.measure(logins.get(day.at, &key)).await;
    assert_eq!(found.expect("an answer"), Some(day));
    assert_eq!(cost.total(), 1);
    let (none, cost) = meter
        .measure(logins.get(at("2013-09-01T00:00:00Z"), &key))
        .await;
    assert_eq!(none.expect("no such slice"), None);
    assert_eq!(cost.total(), 2);
    assert_eq!(names(&logins.slices().await.expect("tables")), ["201301"]);
}

/// Concurrent inserts into new slices create each table once.
pub(crate) async fn concurrent_inserts_create_each_table_once(harness: &Harness) {
    let family = family(harness);
    let (logins, meter) = metered(harness, &family);
    let many = (0..40).map(|n| login(&format!("user{n}"), ["05-01T00:00", "06-01T00:00"][n % 2]));
    let many: Vec<Login> = many.collect();
    let written = join_all(many.iter().map(|login| logins.insert(login))).await;
    assert!(written.iter().all(Result::is_ok));
    assert_eq!(meter.snapshot().of_kind(OperationKind::CreateTable), 2);
    assert_eq!(meter.total(), 44);
    assert_eq!(logins.query().all().await.expect("logins").len(), 40);
}

/// An insert creates its table again after a concurrent drop, for a bounded number of attempts.
pub(crate) async fn an_insert_creates_a_dropped_table_again(harness: &Harness) {
    let (logins, faults) = faulty(harness, &family(harness));
    // The insert runs in a task, so its future must be `Send`.
    let insert = |user: &'static str| {
        let logins = logins.clone();
        tokio::spawn(async move { logins.insert(&login(user, "01-01T08:00")).await })
    };
    let dropped = |times: usize| {
        let lost = [None, None, Some(Fault::TableBeingDeleted)];
        faults.script(std::iter::repeat_n(lost, times).flatten());
    };
    dropped(9);
    insert("ken")
        .await
        .expect("a task")
        .expect("the tenth table");
    faults.script([Some(Fault::TableBeingDeleted)]);
    dropped(8);
    insert("ann")
        .await
        .expect("a task")
        .expect("the tenth table");
    faults.script([Some(Fault::TableBeingDeleted)]);
    dropped(9);
    let error = insert("sue")
        .await
        .expect("a task")
        .expect_err("as often as it is tried");
    assert!(
        matches!(error.kind(), ErrorKind::TableBeingDeleted { .. }),
        "{error}"
    );
}

/// A query reads slices in the order of time, ascending or descending. The bounds of a period are exact.
pub(crate) async fn queries_cross_slices_in_order(harness: &Harness) {
    let family = family(harness);
    let (logins, meter) = metered(harness, &family);
    let all = fill(&logins).await;
    let (oldest, cost) = meter.measure(logins.query().all()).await;
    assert_eq!(times(&oldest.expect("logins")), times(&all));
    assert_eq!(cost.total(), 5);
    let newest = logins.query().newest_first().all().await.expect("logins");
    assert_eq!(
        times(&newest),
        times(&all).into_iter().rev().collect::<Vec<_>>()
    );

    let period = logins
        .query()
        .from(at("2013-02-15T08:00:00Z"))
        .before(at("2013-04-15T08:00:00Z"));
    let (period, cost) = meter.measure(period.all()).await;
    assert_eq!(period.expect("logins").len(), 4);
    assert_eq!(cost.total(), 4);

    let (count, cost) = meter
        .measure(logins.query().from(at("2013-02-16T00:00:00Z")).count())
        .await;
    assert_eq!(count.expect("a count"), 4);
    assert_eq!(cost.total(), 4);

    let ken = logins
        .query()
        .newest_first()
        .limit(2)
        .narrow(|query| query.partition(Login::partition("ken").expect("a legal key")));
    let expected = [login("ken", "04-15T08:00"), login("ken", "03-15T08:00")];
    assert_eq!(ken.all().await.expect("logins"), expected);

    logins
        .insert(&login("adam", "02-20T08:00"))
        .await
        .expect("a new login");
    logins
        .insert(&login("zoe", "02-01T08:00"))
        .await
        .expect("a new login");
    let sorted = logins
        .query()
        .sorted_by_time()
        .newest_first()
        .all()
        .await
        .expect("logins");
    let times = times(&sorted);
    assert_eq!(times.len(), 10, "{times:?}");
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
}

fn times(logins: &[Login]) -> Vec<Ticks> {
    logins.iter().map(|login| login.at).collect()
}

/// A query with a limit reads only the slices that it needs; the smaller of two limits counts. A query without
/// a limit reads slices concurrently.
pub(crate) async fn a_limit_reads_only_the_slices_it_needs(harness: &Harness) {
    let family = family(harness);
    let (logins, meter) = metered(harness, &family);
    let all = fill(&logins).await;
    for (limit, slices) in [(1, 1), (2, 1), (3, 2), (8, 4)] {
        let newest = logins.query().newest_first().limit(limit);
        let (found, cost) = meter.measure(newest.all()).await;
        assert_eq!(found.expect("logins").len(), limit, "limit {limit}");
        assert_eq!(cost.total(), 1 + slices, "limit {limit}");
    }
    let period = || {
        logins
            .query()
            .from(at("2013-02-01T00:00:00Z"))
            .before(at("2013-05-01T00:00:00Z"))
    };
    let narrowed = period()
        .narrow(|query| query.limit(1))
        .limit(10)
        .all()
        .await
        .expect("logins");
    assert_eq!(narrowed, [all[3].clone(), all[5].clone(), all[7].clone()]);
    let narrowed = period()
        .narrow(|query| query.limit(10))
        .limit(1)
        .all()
        .await
        .expect("logins");
    assert_eq!(narrowed, [all[3].clone()]);

    let in_flight = Arc::new(InFlightStore::new(harness.store().clone()));
    let crowded = open(Arc::clone(&in_flight) as Arc<dyn TableStore>, &family);
    for (concurrency, most) in [(8, 4), (2, 2), (1, 1)] {
        in_flight.reset();
        let crowded = crowded.clone().with_concurrency(concurrency);
        assert_eq!(crowded.query().all().await.expect("logins").len(), 8);
        assert_eq!(in_flight.max_in_flight(), most, "{concurrency} at once");
        in_flight.reset();
        assert_eq!(crowded.query().count().await.expect("a count"), 8);
        assert_eq!(in_flight.max_in_flight(), most, "{concurrency} at once");
    }
}

/// Quarters. Their names end like the names of generations begin.
#[derive(Clone, Copy, Debug)]
struct Quarters;

impl Slicing for Quarters {
    fn name(&self, at: Ticks) -> String {
        let at = at.to_datetime();
        format!("{:04}Q{}G", at.year(), at.month0() / 3 + 1)
    }

    fn span(&self, name: &str) -> Option<Range<Ticks>> {
        let (year, quarter) = name.strip_suffix(['G', 'g'])?.split_once(['Q', 'q'])?;
        let month = 3 * quarter
            .parse::<u32>()
            .ok()
            .filter(|quarter| (1..=4).contains(quarter))?
            - 2;
        let first = NaiveDate::from_ymd_opt(year.parse().ok()?, month, 1)?;
        let start = |day: NaiveDate| Ticks::from(day.and_time(NaiveTime::MIN).and_utc());
        Some(start(first)..start(first + Months::new(3)))
    }
}

/// Slices are hours, days, or intervals that the program defines.
pub(crate) async fn slices_are_intervals_of_the_program(harness: &Harness) {
    let hours = ["01-15T07:59", "01-15T08:00", "01-15T08:59"];
    cut(harness, Every::Hour, hours, ["2013011507", "2013011508"]).await;
    cut(
        harness,
        Every::Day,
        ["01-14T23:59", "01-15T00:00", "01-15T23:59"],
        ["20130114", "20130115"],
    )
    .await;
    cut(
        harness,
        Quarters,
        ["03-31T23:59", "04-01T00:00", "06-30T23:59"],
        ["2013Q1G", "2013Q2G"],
    )
    .await;
}

/// Inserts three logins, the first of them in the first of two slices, and creates another generation of the
/// second slice.
async fn cut(harness: &Harness, slicing: impl Slicing + Copy, times: [&str; 3], wanted: [&str; 2]) {
    let family = format!("F{}x", &Uuid::new_v4().simple().to_string()[..12]);
    for (name, suffix) in wanted.iter().flat_map(|name| [(name, ""), (name, "G1")]) {
        harness.clean_up(
            &format!("{family}{name}{suffix}")
                .parse()
                .expect("a legal name"),
        );
    }
    let open = |store: Arc<dyn TableStore>| {
        let slices = TimeSlices::new(store, &family, slicing, |login: &Login| login.at);
        slices.expect("a legal name").with_reuse(Reuse::Generation)
    };
    let logins = open(harness.store().clone());
    let all = times.map(|time| login("ken", time));
    logins.insert(&all[0]).await.expect("a new login");
    logins.insert(&all[1]).await.expect("a new login");

    let faults = FaultInjector::new(0);
    let second = format!("{family}{}", wanted[1])
        .parse()
        .expect("a legal name");
    faults.add(
        FaultRule::new(Fault::TableBeingDeleted)
            .on(OperationKind::CreateTable)
            .in_table(second),
    );
    harness
        .store()
        .delete_table(&format!("{family}{}", wanted[1]).parse().expect("a name"))
        .await
        .expect("a table");
    let other = open(Arc::new(Faulty::new(harness.store().clone(), faults)));
    other.insert(&all[2]).await.expect("the next generation");
    let slices = other.slices().await.expect("tables");
    assert_eq!(names(&slices), wanted);
    assert_eq!(slices[0].generation, 0);
    assert_eq!(slices[1].generation, 1);
    assert_eq!(slices[0].before, slices[1].from);
    let key = Login::key("ken", all[2].at).expect("a legal key");
    assert_eq!(
        other.get(all[2].at, &key).await.expect("an answer"),
        Some(all[2].clone())
    );
    assert_eq!(
        other.query().all().await.expect("logins"),
        [all[0].clone(), all[2].clone()]
    );
    let dropped = other.drop_before(slices[1].from).await.expect("slices");
    assert_eq!(names(&dropped), [wanted[0]]);
    assert_eq!(other.query().all().await.expect("logins"), [all[2].clone()]);
}

/// A drop of old slices is one request per table. A policy first returns the slices to drop.
pub(crate) async fn old_slices_are_dropped(harness: &Harness) {
    let family = family(harness);
    let (logins, meter) = metered(harness, &family);
    fill(&logins).await;
    let bystander = format!("{family}Archive").parse().expect("a legal name");
    harness.clean_up(&bystander);
    harness
        .store()
        .create_table(&bystander)
        .await
        .expect("a new table");

    let (dropped, cost) = meter
        .measure(logins.drop_before(at("2013-02-28T00:00:00Z")))
        .await;
    assert_eq!(names(&dropped.expect("slices")), vec!["201301"]);
    assert_eq!(cost.total(), 2);
    assert_eq!(logins.query().all().await.expect("logins").len(), 6);

    let now = at("2013-04-20T00:00:00Z");
    let (plan, cost) = meter
        .measure(logins.expired(Keep::Younger(TimeDelta::days(20)), now))
        .await;
    let plan = plan.expect("a plan");
    assert_eq!(names(&plan), vec!["201302"]);
    assert_eq!(cost.total(), 1);
    assert_eq!(
        names(&logins.expired(Keep::Newest(1), now).await.expect("a plan")),
        ["201302", "201303"]
    );
    assert_eq!(names(&logins.slices().await.expect("tables")).len(), 3);
    let dropped = logins
        .retain(Keep::Younger(TimeDelta::days(20)), now)
        .await
        .expect("slices");
    assert_eq!(dropped, plan);
    assert_eq!(
        names(&logins.slices().await.expect("tables")),
        ["201303", "201304"]
    );
    assert!(
        harness
            .store()
            .all_tables(Some(&family))
            .await
            .expect("tables")
            .contains(&bystander)
    );

    // A late entity creates its slice again, also through another handle that remembers the table.
    let (other, _) = metered(harness, &family);
    other
        .insert(&login("late", "03-01T00:00"))
        .await
        .expect("a new login");
    logins
        .drop_before(at("2013-04-01T00:00:00Z"))
        .await
        .expect("slices");
    other
        .insert(&login("late", "03-02T00:00"))
        .await
        .expect("a new login");
    assert_eq!(
        names(&logins.slices().await.expect("tables")),
        ["201303", "201304"]
    );
}

/// A policy does not count future slices, which a writer with a fast clock made. A policy drops neither future
/// slices nor the present slice.
pub(crate) async fn future_slices_are_neither_counted_nor_dropped(harness: &Harness) {
    let family = family(harness);
    let (logins, _) = metered(harness, &family);
    fill(&logins).await;
    for ahead in ["10-01T00:00", "11-01T00:00", "12-01T00:00"] {
        logins
            .insert(&login("ahead", ahead))
            .await
            .expect("a new login");
    }
    let now = at("2013-04-20T00:00:00Z");
    let plan = async |keep| logins.expired(keep, now).await.expect("a plan");
    assert_eq!(names(&plan(Keep::Newest(3)).await), ["201301"]);
    assert_eq!(
        names(&plan(Keep::Newest(1)).await),
        ["201301", "201302", "201303"]
    );
    assert_eq!(
        names(&plan(Keep::Newest(0)).await),
        ["201301", "201302", "201303"]
    );
    assert_eq!(
        names(&plan(Keep::Younger(TimeDelta::zero())).await),
        ["201301", "201302", "201303"]
    );
    let future = Keep::Younger(TimeDelta::days(-90));
    for error in [
        logins.expired(future, now).await,
        logins.retain(future, now).await,
    ] {
        assert!(error.is_err_and(|error| error.to_string().contains("future")));
    }
    logins.retain(Keep::Newest(2), now).await.expect("slices");
    let left = ["201303", "201304", "201310", "201311", "201312"];
    assert_eq!(names(&logins.slices().await.expect("tables")), left);
}

#[derive(Debug, TableEntity)]
#[entity(type = "Indexed")]
#[index(user, row_key = "user_{user}_{at}")]
struct Indexed {
    #[partition_key]
    day: String,
    #[row_key]
    at: Ticks,
    user: String,
}

#[derive(Debug, TableEntity)]
struct Recording {
    #[partition_key]
    day: String,
    #[row_key]
    at: Ticks,
    #[large]
    sound: Vec<u8>,
}

/// A family refuses a type that it cannot store whole, when the family is opened.
pub(crate) async fn a_type_that_a_family_cannot_store_is_refused(harness: &Harness) {
    let (store, family) = (|| harness.store().clone(), family(harness));
    let error =
        TimeSlices::new(store(), &family, Every::Month, |row: &Indexed| row.at).unwrap_err();
    assert!(error.to_string().contains("the index 'user'"), "{error}");
    let error =
        TimeSlices::new(store(), &family, Every::Month, |row: &Recording| row.at).unwrap_err();
    assert!(error.to_string().contains("in blobs"), "{error}");
}

/// The time is not part of the key.
#[derive(Clone, Debug, PartialEq, TableEntity)]
struct Visit {
    #[partition_key]
    user: String,
    #[row_key]
    number: u32,
    at: Ticks,
    note: String,
}

fn visit(time: &str, note: &str) -> Visit {
    Visit {
        user: "ken".to_owned(),
        number: 1,
        at: at(&format!("2013-{time}:00Z")),
        note: note.to_owned(),
    }
}

fn visits(harness: &Harness, family: &str) -> TimeSlices<Visit> {
    let store = harness.store().clone();
    TimeSlices::new(store, family, Every::Month, |visit: &Visit| visit.at).expect("a legal name")
}

/// Only a move takes an entity to another slice. Other verbs refuse such a change and write nothing.
pub(crate) async fn an_entity_stays_in_its_slice(harness: &Harness) {
    let visits = visits(harness, &family(harness));
    let (old, later) = (visit("01-15T08:00", "old"), visit("02-15T08:00", "old"));
    visits.insert(&old).await.expect("a new visit");
    let key = old.entity_key().expect("a legal key");
    let delay = |visit: &mut Visit| {
        visit.at = later.at;
        Ok(())
    };
    let refused = [
        visits.update(old.at, &key, delay).await.map(drop),
        visits
            .merge(old.at, &key, &Visit::patch().at(later.at), IfMatch::Any)
            .await
            .map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("another slice").to_string();
        assert!(error.contains("'201301'"), "{error}");
        assert!(error.contains("'201302'"), "{error}");
        assert!(error.contains("move_to"), "{error}");
    }
    let missing = visits
        .replace_if(&later, IfMatch::Any)
        .await
        .expect_err("the entity is in January");
    assert!(missing.is_entity_not_found(), "{missing}");
    assert_eq!(
        visits.query().all().await.expect("visits"),
        std::slice::from_ref(&old)
    );
    assert_eq!(
        visits.slices().await.expect("tables").len(),
        1,
        "no table was made"
    );

    let (same, new) = (visit("01-20T08:00", "new"), visit("01-15T08:00", "new"));
    visits
        .update(old.at, &key, |visit| {
            visit.at = same.at;
            Ok(())
        })
        .await
        .expect("the same month");
    visits
        .merge(
            same.at,
            &key,
            &Visit::patch().at(old.at).note("new".to_owned()),
            IfMatch::Any,
        )
        .await
        .expect("the same month");
    assert_eq!(
        visits.get(old.at, &key).await.expect("an answer"),
        Some(new)
    );
}

/// Verbs find an entity in every table of its slice. The requests for a later generation are as documented.
pub(crate) async fn verbs_find_entities_in_every_generation(harness: &Harness) {
    for reuse in [Reuse::Wait(Duration::ZERO), Reuse::Generation] {
        let family = family(harness);
        let second: TableName = format!("{family}201301G1").parse().expect("a legal name");
        let (old, store) = (visit("01-15T08:00", "old"), harness.store());
        for table in [
            format!("{family}201301").parse().expect("a legal name"),
            second.clone(),
        ] {
            store
                .create_table_if_missing(&table)
                .await
                .expect("a new table");
        }
        store
            .write(
                &second,
                Operation::Insert(old.to_entity().expect("an entity")),
            )
            .await
            .expect("a new row");
        let meter = RequestMeter::new();
        let metered: Arc<dyn TableStore> = Arc::new(Metered::new(store.clone(), meter.clone()));
        let visits = TimeSlices::new(metered, &family, Every::Month, |visit: &Visit| visit.at);
        let visits = visits.expect("a legal name").with_reuse(reuse);
        let key = old.entity_key().expect("a legal key");
        // A handle that waits looks at the first table and the list. A handle with generations looks at the
        // list, and at the latest table first.
        let looks = if reuse == Reuse::Generation { 1 } else { 2 };
        let note = |text: &'static str| {
            move |visit: &mut Visit| {
                visit.note = text.to_owned();
                Ok(())
            }
        };
        let (done, cost) = meter.measure(visits.update(old.at, &key, note("a"))).await;
        assert_eq!(done.expect("an update").note.as_str(), "a", "{reuse:?}");
        assert_eq!(cost.total(), looks + 2, "{reuse:?}");
        visits
            .merge(
                old.at,
                &key,
                &Visit::patch().note("b".to_owned()),
                IfMatch::Any,
            )
            .await
            .expect("a merge");
        assert_eq!(
            visits
                .get_existing(old.at, &key)
                .await
                .expect("the visit")
                .note,
            "b"
        );
        visits
            .replace_if(&visit("01-15T08:00", "c"), IfMatch::Any)
            .await
            .expect("the row exists");
        let to = Visit::key("kim", 2u32).expect("a legal key");
        visits
            .move_to(old.at, &key, &visits, &to)
            .await
            .expect("a move");
        assert_eq!(visits.get(old.at, &key).await.expect("an answer"), None);
        let moved = Visit {
            user: "kim".to_owned(),
            number: 2,
            ..visit("01-15T08:00", "c")
        };
        assert_eq!(visits.query().all().await.expect("visits"), [moved]);
        visits
            .delete(old.at, &to, IfMatch::Any)
            .await
            .expect("the row exists");
        let missing = visits
            .delete(old.at, &to, IfMatch::Any)
            .await
            .expect_err("the table is gone");
        assert!(missing.is_entity_not_found(), "{missing}");
    }
}

/// Pages read the newest slice first, and continue across slices and across a slice that was dropped between
/// pages.
pub(crate) async fn pages_cross_slices(harness: &Harness) {
    let family = family(harness);
    let logins = open(harness.store().clone(), &family);
    let all = fill(&logins).await;
    let query = || logins.query().newest_first().limit(1);
    let (mut read, mut from) = (Vec::new(), None);
    loop {
        let page = query().page(from.as_ref()).await.expect("a page");
        assert!(page.items.len() <= 1);
        read.extend(page.items);
        from = page.continuation;
        if read.len() == 3 {
            logins
                .drop_before(at("2013-04-01T00:00:00Z"))
                .await
                .expect("three slices");
        }
        if from.is_none() {
            break;
        }
    }
    assert_eq!(read.len(), 3, "a page skips a dropped slice");
    assert!(
        read[..2].iter().all(|login| login.at == all[6].at),
        "{read:?}"
    );
    let older = logins.query().limit(1).page(None).await.expect("a page");
    let error = query()
        .page(older.continuation.as_ref())
        .await
        .expect_err("another order");
    assert!(
        matches!(error.kind(), ErrorKind::InvalidContinuation(_)),
        "{error}"
    );
    let sorted = logins
        .query()
        .sorted_by_time()
        .page(None)
        .await
        .expect_err("one piece");
    assert!(sorted.to_string().contains("one piece"), "{sorted}");
}

/// Every write is refused without a change if an index of another program contains entities of any type.
pub(crate) async fn writes_are_refused_over_an_index_of_any_type(harness: &Harness) {
    let family = family(harness);
    let logins = open(harness.store().clone(), &family);
    let (day, other) = (login("ken", "01-15T08:00"), login("kim", "02-15T08:00"));
    logins.insert(&day).await.expect("a new login");
    logins.insert(&other).await.expect("a new login");
    let slice = logins.table_name(day.at).expect("a legal name");
    declare_index_of_any(harness.store(), &slice).await;
    let key = |login: &Login| Login::key(&login.user, login.at).expect("a legal key");
    let moved = login("ken", "01-16T08:00");
    let refused = [
        logins.upsert(&day).await.map(drop),
        logins.replace_if(&day, IfMatch::Any).await.map(drop),
        logins
            .delete(day.at, key(&day), IfMatch::Any)
            .await
            .map(drop),
        logins
            .move_to(day.at, key(&day), &logins, key(&moved))
            .await,
        logins
            .move_to(other.at, key(&other), &logins, key(&moved))
            .await,
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let error = refused
            .expect_err("an index of any type refuses the append")
            .to_string();
        assert!(error.contains("'amount."), "write {number}: {error}");
    }
    for there in [&day, &other] {
        assert_eq!(
            logins
                .get(there.at, key(there))
                .await
                .expect("an answer")
                .as_ref(),
            Some(there)
        );
    }
    let gone = logins.get(moved.at, key(&moved)).await.expect("an answer");
    assert_eq!(gone, None);
}
