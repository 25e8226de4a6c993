//! Random operations on patterns that find entities by key, compared with models.

use std::collections::{BTreeMap, BTreeSet};

use crate::open_table;
use fastrand::Rng;
use table_core::prelude::*;
use table_patterns::Database;
use table_patterns::compound::Compound;
use table_patterns::relationship::{JoinCache, JoinOptions};

use crate::Harness;

fn steps(harness: &Harness) -> usize {
    harness.scale().steps.min(400)
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
struct Order {
    #[partition_key]
    customer: String,
    #[row_key(format = "order_{:04}")]
    number: u32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Line",
    rename_all = "PascalCase",
    partition_key = "{customer}",
    row_key = "order_{number:04}_{line:03}"
)]
struct Line {
    customer: String,
    number: u32,
    line: u32,
}

#[derive(Clone, Debug, PartialEq, EntityResolver)]
enum Row {
    Order(Order),
    Line(Line),
}

fn order(number: u32) -> Order {
    Order {
        customer: "c".to_owned(),
        number,
    }
}

fn line(number: u32, line: u32) -> Line {
    Line {
        customer: "c".to_owned(),
        number,
        line,
    }
}

/// Orders and their lines, compared with a set of numbers.
pub(crate) async fn compound_rows_are_a_set(harness: &Harness) {
    let table = harness.table().await;
    let orders = Database::new(table.store().clone())
        .table::<Order>(table.name().clone())
        .expect("a table");
    let lines = orders.view::<Line>().expect("a table");
    let of = |n| Compound::<Row>::new(&orders, Order::key("c", n).expect("a key")).expect("a view");
    let (mut rng, mut model) = (Rng::with_seed(81), BTreeSet::<(u32, Option<u32>)>::new());
    for step in 0..steps(harness) {
        let (n, l) = (rng.u32(..5), rng.u32(..12));
        match rng.u8(..12) {
            0 => {
                let done = orders.insert(&order(n)).await;
                assert_eq!(done.is_ok(), model.insert((n, None)), "step {step}");
            }
            1..5 => {
                let done = lines.insert(&line(n, l)).await;
                assert_eq!(done.is_ok(), model.insert((n, Some(l))), "step {step}");
            }
            5 => {
                let deleted = of(n).delete().await.expect("a count");
                let before = model.len();
                model.retain(|(number, _)| *number != n);
                assert_eq!(deleted, before - model.len(), "step {step}");
            }
            6..9 => {
                let (from, to) = (
                    Line::key("c", n, l).expect("a key"),
                    Line::key("c", n, l + 4).expect("a key"),
                );
                let found = of(n)
                    .between::<Line>(from, to)
                    .expect("a view")
                    .all()
                    .await
                    .expect("lines");
                let wanted = model
                    .range((n, Some(l))..=(n, Some(l + 4)))
                    .filter_map(|(_, line)| *line);
                assert!(
                    found.iter().map(|found| found.line).eq(wanted),
                    "step {step}: {found:?}"
                );
            }
            _ => {
                let found = of(n).all().await.expect("rows");
                let wanted = model
                    .range((n, None)..(n + 1, None))
                    .map(|(number, l)| match l {
                        None => Row::Order(order(*number)),
                        Some(l) => Row::Line(line(*number, *l)),
                    });
                assert_eq!(found, wanted.collect::<Vec<_>>(), "step {step}");
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    rename_all = "PascalCase",
    partition_key = "airline",
    row_key = "{code}"
)]
struct Airline {
    code: String,
    fleet: u32,
}

/// A join, compared with a map of the last reads: the cache forgets entities on request, and never returns an
/// entity older than its last read.
pub(crate) async fn a_join_is_a_map_of_what_was_read(harness: &Harness) {
    let table = harness.table().await;
    let airlines = Database::new(table.store().clone())
        .table::<Airline>(table.name().clone())
        .expect("a table");
    let cache = JoinCache::new(airlines.clone(), JoinOptions::default());
    let (mut rng, mut stored) = (Rng::with_seed(82), BTreeMap::<usize, u32>::new());
    let mut known = BTreeMap::<usize, u32>::new();
    let code = |n: usize| ["AA", "B6", "DL", "UA", "WN"][n].to_owned();
    for step in 0..steps(harness) {
        let n = rng.usize(..5);
        match rng.u8(..8) {
            0 | 1 => {
                let airline = Airline {
                    code: code(n),
                    fleet: step as u32,
                };
                airlines.upsert(&airline).await.expect("an upsert");
                stored.insert(n, airline.fleet);
            }
            2 => {
                cache.forget(Airline::key(code(n)).expect("a key"));
                known.remove(&n);
            }
            3 if rng.u8(..4) == 0 => {
                cache.clear();
                known.clear();
            }
            4 if rng.u8(..4) == 0 => {
                assert_eq!(
                    cache.load(&airlines.query()).await.expect("airlines"),
                    stored.len()
                );
                known = stored.clone();
            }
            _ => {
                let asked: Vec<usize> = (0..8).map(|_| rng.usize(..5)).collect();
                let joined = cache
                    .join(asked, |n| Airline::key(code(*n)))
                    .await
                    .expect("a join");
                for (n, found) in joined {
                    let wanted = known.get(&n).or(stored.get(&n)).copied();
                    assert_eq!(found.map(|airline| airline.fleet), wanted, "step {step}");
                    wanted.map(|fleet| known.insert(n, fleet));
                }
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Person", rename_all = "PascalCase")]
#[index(email, row_key = "email_{email}", unique = "partition", payload = full)]
#[index(city, partition_key = "city_{city}", row_key = "{id:06}_{team}")]
struct Person {
    #[partition_key]
    team: String,
    #[row_key(format = "id_{:06}")]
    id: u32,
    email: Option<String>,
    city: String,
    #[etag]
    etag: Option<ETag>,
}

const CITIES: [&str; 3] = ["bergen", "oslo", "rome"];

fn person(rng: &mut Rng, id: u32) -> Person {
    let email = (rng.u8(..3) > 0).then(|| format!("m{}@x", rng.u32(..12)));
    Person {
        team: "t".to_owned(),
        id,
        email,
        city: CITIES[rng.usize(..3)].to_owned(),
        etag: None,
    }
}

/// Lookups of people by e-mail address and by city, compared with a map of people.
pub(crate) async fn lookups_are_searches_of_a_map(harness: &Harness) {
    let options = super::index_lists::options();
    let people = open_table::<Person>(harness.store().clone(), harness.unused_name(), options);
    let people = people.await.expect("a new table");
    let (mut rng, mut model) = (Rng::with_seed(83), BTreeMap::<u32, Person>::new());
    for step in 0..steps(harness) / 2 {
        let id = rng.u32(..20);
        let key = Person::key("t", id).expect("a legal key");
        match rng.u8(..8) {
            0..3 => {
                let new = person(&mut rng, id);
                let taken = model
                    .values()
                    .any(|p| p.id != id && p.email.is_some() && p.email == new.email);
                let done = people.upsert(&new).await;
                assert_eq!(done.is_ok(), !taken, "step {step}: {done:?}");
                if !taken {
                    model.insert(id, new);
                }
            }
            3 => {
                let deleted = people.delete_if_exists(key).await.expect("an answer");
                assert_eq!(deleted, model.remove(&id).is_some(), "step {step}");
            }
            4 | 5 => {
                let city = CITIES[rng.usize(..3)];
                let found = people
                    .by(Person::by_city(city))
                    .all()
                    .await
                    .expect("people");
                let wanted = model
                    .values()
                    .filter(|person| person.city == city)
                    .map(|person| person.id);
                assert!(
                    found.iter().map(|person| person.id).eq(wanted),
                    "step {step}: {found:?}"
                );
            }
            _ => {
                let email = format!("m{}@x", rng.u32(..12));
                let found = people
                    .by(Person::by_email("t").email(&email))
                    .get()
                    .await
                    .expect("an answer");
                let wanted = model
                    .values()
                    .find(|person| person.email.as_ref() == Some(&email));
                assert_eq!(
                    found.map(|person| person.id),
                    wanted.map(|person| person.id),
                    "step {step}"
                );
            }
        }
    }
}
