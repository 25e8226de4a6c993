//! Programs of versions N and N + 1 write one table side by side, by chance and with faults, on the memory store and on the embedded
//! one. Afterwards every index is what the entities are, no unique value has two owners, and nothing that was written is lost.
//!
//! Every run has a seed, and a failure prints the seed. `DEPLOY_SEED` plays one seed, `DEPLOY_TIMES` multiplies the number of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conformance::open_table;
use fastrand::Rng;
use futures_util::future::join_all;
use table_core::adapter::{CrashPoint, Fault, FaultInjector, FaultRule, Faulty};
use table_core::manifest::IndexState;
use table_core::memory::MemoryStore;
use table_core::model::Entity;
use table_core::prelude::*;
use table_core::query::Query;
use table_core::store::{Error, ErrorKind, Outcome, Result};
use table_embedded::EmbeddedStore;
use table_patterns::Table;
use table_patterns::index::{IndexOptions, ScrubMode};
use table_patterns::journal::{Clearing, Timing};
use tokio::time::{sleep, timeout};

const TABLE: &str = "People";
const LEASE: Duration = Duration::from_secs(2);
/// Entities that are there throughout, and entities that come and go.
const STEADY: [&str; 2] = ["x", "y"];
const FREE: [&str; 3] = ["a", "b", "c"];
const VALUES: [&str; 6] = ["k", "l", "m", "n", "o", "p"];
/// What no version knows.
const UNKNOWN: &str = "Unknown";

trait Program: TableEntity + TableEntity<Patch: Send + Sync> + Clone + Debug + Send + 'static {
    /// Whether it counts its changes in a property that version N does not know.
    const ADDS: bool;

    fn new(id: &str, value: &str) -> Self;
    /// Gives the entity another value or none, and counts the change.
    fn change(&mut self, value: Option<&str>);
    /// A patch that sets the note.
    fn noted() -> Self::Patch;
}

macro_rules! program {
    ($name:ident, [$($attribute:meta),*] $(, $added:ident)?) => {
        #[derive(Clone, Debug, TableEntity)]
        $(#[$attribute])*
        #[entity(rename_all = "PascalCase")]
        struct $name {
            #[partition_key]
            place: String,
            #[row_key(format = "id_{}")]
            id: String,
            value: Option<String>,
            count: i32,
            note: Option<String>,
            $($added: Option<i32>,)?
        }

        impl Program for $name {
            const ADDS: bool = !concat!($(stringify!($added))?).is_empty();

            fn new(id: &str, value: &str) -> Self {
                let (place, id, value) = ("p".to_owned(), id.to_owned(), Some(value.to_owned()));
                Self { place, id, value, count: 0, note: None, $($added: None,)? }
            }

            fn change(&mut self, value: Option<&str>) {
                self.value = value.map(str::to_owned);
                self.count += 1;
                $(self.$added = Some(self.$added.unwrap_or_default() + 1);)?
            }

            fn noted() -> Self::Patch {
                Self::patch().note("noted".to_owned())
            }
        }
    };
}

program!(Before, [entity(type = "Person"), index(kept, row_key = "kept_{value}_{id}"), index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}")]);
program!(
    Extended,
    [entity(type = "Person"), index(kept, row_key = "kept_{value}_{id}"), index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}")],
    added
);
program!(
    Indexed,
    [
        entity(type = "Person"), index(kept, row_key = "kept_{value}_{id}"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}"),
        index(more, partition_key = "more_{value}", row_key = "at_{place}_{id}")
    ],
    added
);
program!(
    Unique,
    [
        entity(type = "Person"), index(kept, row_key = "kept_{value}_{id}"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}"),
        index(one, partition_key = "one_{value}", row_key = "one", unique = "table")
    ],
    added
);
program!(Freed, [entity(type = "Person"), index(kept, row_key = "kept_{value}_{id}")], added);
program!(
    Changed,
    [entity(type = "Person"), index(kept, row_key = "kept_{value}_{id}"), index(known, partition_key = "again_{value}", row_key = "at_{place}_{id}")],
    added
);
program!(
    Raised,
    [
        entity(type = "Person", version = 2, previous = Before), index(kept, row_key = "kept_{value}_{id}"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}")
    ],
    added
);
program!(
    Readable,
    [
        entity(type = "Person", version = 2, min_reader = 1, previous = Before), index(kept, row_key = "kept_{value}_{id}"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}")
    ],
    added
);
program!(
    Ticket,
    [
        entity(type = "Ticket"),
        index(code, partition_key = "code_{value}", row_key = "code", unique = "table")
    ]
);

macro_rules! previous {
    ($($name:ident)*) => {$(
        impl From<Before> for $name {
            fn from(Before { place, id, value, count, note }: Before) -> Self {
                Self { place, id, value, count, note, added: None }
            }
        }
    )*};
}

previous!(Raised Readable);

/// The maintenance that version N + 1 does in addition to writes.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Nothing,
    Build(&'static str),
    /// Builds its own generation of the index, and drops that of version N.
    Replace(&'static str),
    /// Drops the index of version N.
    Drop(&'static str),
}

fn table() -> TableName {
    TableName::new(TABLE).unwrap()
}

/// The generation of an index that version N has.
fn id_before(name: &str) -> String {
    Before::SCHEMA
        .indexes
        .iter()
        .find(|index| *index.name == *name)
        .unwrap()
        .id()
}

/// Prints the seed where the run fails.
struct Seed(u64, &'static str);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: DEPLOY_SEED={}", self.1, self.0);
        }
    }
}

fn seeds(count: u64) -> Vec<u64> {
    let number = |name| {
        env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    match number("DEPLOY_SEED") {
        Some(seed) => vec![seed],
        None => (1..=count * number("DEPLOY_TIMES").unwrap_or(1)).collect(),
    }
}

/// How often something was done: certainly, and perhaps.
#[derive(Default)]
struct Done {
    surely: AtomicUsize,
    perhaps: AtomicUsize,
}

impl Done {
    fn count<T>(&self, answer: &Result<T>) {
        let counter = match answer.as_ref().map_err(Error::outcome) {
            Ok(_) => &self.surely,
            Err(Outcome::NotApplied) => return,
            // *Applied* is of a part of the write where an answer could not be read.
            Err(_) => &self.perhaps,
        };
        counter.fetch_add(1, Ordering::SeqCst);
    }

    /// A future that was dropped answers nothing.
    fn doubt(&self) {
        self.perhaps.fetch_add(1, Ordering::SeqCst);
    }

    fn check(&self, found: usize, what: &str) {
        let surely = self.surely.load(Ordering::SeqCst);
        let most = surely + self.perhaps.load(Ordering::SeqCst);
        assert!(
            (surely..=most).contains(&found),
            "{what}: {found} are there, of {surely} to {most}"
        );
    }
}

/// The changes of the entities that exist during the whole run.
#[derive(Default)]
struct Told {
    changes: BTreeMap<&'static str, [Done; 2]>,
    notes: BTreeMap<&'static str, Done>,
}

impl Told {
    fn new() -> Self {
        Self {
            changes: STEADY.map(|id| (id, Default::default())).into(),
            notes: STEADY.map(|id| (id, Done::default())).into(),
        }
    }
}

fn options() -> IndexOptions {
    let mut options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
    options.timing = Timing::new(LEASE, LEASE / 4, Duration::ZERO).unwrap();
    options.cache = LEASE / 8;
    options
}

async fn open<P: Program>(store: impl TableStore) -> Result<Table<P>> {
    open_table(store, TABLE, options()).await
}

/// A store as one process has it: requests fail, answers are lost, and sometimes the process dies.
fn process(store: &Arc<dyn TableStore>, rng: &mut Rng) -> Faulty<Arc<dyn TableStore>> {
    let faults = FaultInjector::new(rng.u64(..));
    let often = |fault, chance| faults.add(FaultRule::new(fault).with_probability(chance));
    often(Fault::FailBefore, 0.01);
    often(Fault::LoseRequest, 0.01);
    often(Fault::LoseAnswer, 0.02);
    often(Fault::BreakAnswer, 0.01);
    often(Fault::Delay(Duration::from_millis(rng.u64(1..20))), 0.1);
    if rng.u8(..4) == 0 {
        faults.crash_at(rng.u64(10..200), *rng.choice(&CrashPoint::ALL).unwrap());
    }
    Faulty::new(store.clone(), faults)
}

/// Makes this number of random writes. Counts refused and lost writes, and goes on.
async fn write<P: Program>(
    store: Faulty<Arc<dyn TableStore>>,
    told: &Told,
    mut rng: Rng,
    times: usize,
) {
    let Ok(people) = open::<P>(store).await else {
        return;
    };
    let is_person = P::SCHEMA
        .entity_type()
        .has_same_rows(&Before::SCHEMA.entity_type());
    for _ in 0..times {
        let value = *rng.choice(&VALUES).unwrap();
        let free = *rng.choice(&FREE).unwrap();
        let free = if is_person {
            free.to_owned()
        } else {
            format!("t{free}")
        };
        let steady = *rng.choice(&STEADY).unwrap();
        let dies = (rng.u8(..20) == 0).then(|| Duration::from_micros(rng.u64(..2_000)));
        let change = |entity: &mut P| {
            entity.change(Some(value));
            Ok(())
        };
        match rng.u8(..6) {
            0 | 1 if is_person => {
                let update = people.update(key(steady), change);
                let [all, added] = &told.changes[steady];
                let counted = || if P::ADDS { vec![all, added] } else { vec![all] };
                match in_time(dies, update).await {
                    Some(answer) => counted().into_iter().for_each(|done| done.count(&answer)),
                    None => counted().into_iter().for_each(Done::doubt),
                }
            }
            2 if is_person => {
                let note = P::noted();
                let merge = people.merge(key(steady), &note, IfMatch::Any);
                match in_time(dies, merge).await {
                    Some(answer) => told.notes[steady].count(&answer),
                    None => told.notes[steady].doubt(),
                }
            }
            3 => drop(in_time(dies, people.insert(&P::new(&free, value))).await),
            4 => drop(in_time(dies, people.delete_if_exists(key(&free))).await),
            5 => drop(in_time(dies, people.upsert(&P::new(&free, value))).await),
            _ => drop(in_time(dies, people.update(key(&free), change)).await),
        }
    }
}

fn key<T>(id: &str) -> EntityKey<T> {
    Before::key("p", id).unwrap().cast()
}

/// What a future gives, unless it is dropped before.
async fn in_time<T>(dies: Option<Duration>, done: impl Future<Output = T>) -> Option<T> {
    match dies {
        Some(after) => timeout(after, done).await.ok(),
        None => Some(done.await),
    }
}

async fn perform<P: Program>(people: &Table<P>, deed: Deed) -> Result<()> {
    let entities = people.entities().await?;
    let drop_before = async |name| {
        let id = id_before(name);
        match entities
            .declared()
            .await?
            .iter()
            .any(|index| index.id() == id)
        {
            true => entities.drop_index(&id).await,
            false => Ok(()),
        }
    };
    match deed {
        Deed::Nothing => Ok(()),
        Deed::Build(name) => entities.build(name)?.run().await.map(drop),
        Deed::Replace(name) => {
            entities.build(name)?.run().await?;
            drop_before(name).await
        }
        Deed::Drop(name) => drop_before(name).await,
    }
}

/// What version N has written before the other comes.
async fn found(store: &Arc<dyn TableStore>) -> Result<()> {
    let people = open::<Before>(store.clone()).await?;
    for (id, value) in STEADY.iter().zip(VALUES) {
        let entity = Before::new(id, value).to_entity()?.with(UNKNOWN, 7);
        people
            .entities()
            .await
            .expect("an open table")
            .insert(entity)
            .await?;
    }
    Ok(())
}

/// Two programs of version N and two of the other write, and one of these does its deed.
async fn round<P: Program>(
    store: &Arc<dyn TableStore>,
    told: &Told,
    rng: &mut Rng,
    deed: Deed,
    times: usize,
) {
    let mut older = Vec::new();
    let mut newer = Vec::new();
    for _ in 0..2 {
        older.push(write::<Before>(
            process(store, rng),
            told,
            rng.fork(),
            times,
        ));
        newer.push(write::<P>(process(store, rng), told, rng.fork(), times));
    }
    let (store, pause) = (process(store, rng), Duration::from_millis(rng.u64(..20)));
    let deed = async move {
        sleep(pause).await;
        if let Ok(people) = open::<P>(store).await {
            // What fails is done in the end.
            let _done = perform(&people, deed).await;
        }
    };
    futures_util::join!(join_all(older), join_all(newer), deed);
}

/// What crashes have left is finished, the deed is done, and everything is as it is to be.
async fn judge<P: Program>(store: &Arc<dyn TableStore>, told: &Told, deed: Deed) {
    let (older, newer) = (
        open::<Before>(store.clone()).await.unwrap(),
        open::<P>(store.clone()).await.unwrap(),
    );
    for _ in 0..2 {
        older
            .entities()
            .await
            .expect("an open table")
            .journal()
            .sweep(&[table()], Duration::ZERO)
            .await
            .unwrap();
        newer
            .entities()
            .await
            .expect("an open table")
            .journal()
            .sweep(&[table()], Duration::ZERO)
            .await
            .unwrap();
    }
    let mut done = perform(&newer, deed).await;
    // Of several entities with one value of the new unique index, all but the first lose the value. No entity gets another value before
    // the index is readable.
    while let Err(error) = &done
        && let ErrorKind::DuplicateValues { duplicates, .. } = error.root().kind()
    {
        let mut others: Vec<_> = duplicates.iter().map(|two| two.other.clone()).collect();
        others.dedup();
        for other in others {
            let mut ids = STEADY.iter().chain(&FREE);
            let id = *ids
                .find(|id| other.contains(&format!("'id_{id}'")))
                .unwrap();
            let change = |person: &mut P| {
                person.change(None);
                Ok(())
            };
            newer.update(key(id), change).await.unwrap();
            if let Some(changes) = told.changes.get(id) {
                let counted = if P::ADDS { &changes[..] } else { &changes[..1] };
                counted.iter().for_each(|done| done.count(&Ok(())));
            }
        }
        done = perform(&newer, deed).await;
    }
    done.unwrap();

    let rows = store.query_all(&table(), &Query::new()).await.unwrap();
    for (id, changes) in &told.changes {
        let entity = rows
            .iter()
            .find(|row| row.key() == key::<Before>(id).key())
            .expect(id);
        let held = |name| match entity.get(name) {
            Some(ValueRef::Int32(count)) => usize::try_from(count).unwrap(),
            _ => 0,
        };
        changes[0].check(held("Count"), &format!("changes of {id}"));
        changes[1].check(
            held("Added"),
            &format!("changes of {id} that version N does not know"),
        );
        let noted = told.notes[id].surely.load(Ordering::SeqCst) > 0;
        assert!(
            !noted || entity.get("Note").is_some(),
            "the note of {id} is lost"
        );
        assert_eq!(held(UNKNOWN), 7, "what no version knows of {id}");
    }
    let declared = newer
        .entities()
        .await
        .expect("an open table")
        .declared()
        .await
        .unwrap();
    for own in P::SCHEMA.indexes {
        assert!(
            declared.iter().any(|index| index.id() == own.id()),
            "{} is gone",
            own.id()
        );
    }
    for index in &declared {
        assert_eq!(index.state, IndexState::Readable, "{}", index.id());
        let found = newer
            .entities()
            .await
            .expect("an open table")
            .scrub(&index.id(), ScrubMode::Report)
            .await
            .unwrap();
        assert_eq!(found.dangling, 0, "{}", index.id());
        assert_eq!(found.missing, 0, "{}", index.id());
        assert_eq!(found.taken_keys, 0, "{}", index.id());
    }
    for unique in P::SCHEMA
        .indexes
        .iter()
        .filter(|index| index.uniqueness != table_core::manifest::Uniqueness::No)
    {
        let is_of = |row: &&Entity| unique.entity.admits(row);
        let of: Vec<_> = rows
            .iter()
            .filter(is_of)
            .filter_map(|row| row.get("Value"))
            .map(|v| format!("{v:?}"))
            .collect();
        assert_eq!(
            of.iter().collect::<BTreeSet<_>>().len(),
            of.len(),
            "{of:?} of '{}'",
            unique.name
        );
    }
}

async fn in_memory<P: Program>(name: &'static str, deed: Deed) {
    for seed in seeds(12) {
        let _seed = Seed(seed, name);
        let mut rng = Rng::with_seed(seed);
        let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
        let told = Told::new();
        found(&store).await.unwrap();
        round::<P>(&store, &told, &mut rng, deed, 25).await;
        judge::<P>(&store, &told, deed).await;
    }
}

/// Opens the directory again for each round. Work that was in progress when the previous process closed the store stays unfinished.
async fn embedded<P: Program>(name: &'static str, deed: Deed) {
    for seed in seeds(1) {
        let _seed = Seed(seed, name);
        let mut rng = Rng::with_seed(seed);
        let directory = tempfile::tempdir().unwrap();
        let opened = async || EmbeddedStore::open(directory.path()).await.unwrap();
        let told = Told::new();
        for turn in 0..3 {
            let embedded = opened().await;
            let store: Arc<dyn TableStore> = Arc::new(embedded.clone());
            if turn == 0 {
                found(&store).await.unwrap();
            }
            round::<P>(&store, &told, &mut rng, deed, 10).await;
            embedded.close().await.unwrap();
        }
        let embedded = opened().await;
        let store: Arc<dyn TableStore> = Arc::new(embedded.clone());
        judge::<P>(&store, &told, deed).await;
        embedded.close().await.unwrap();
    }
}

macro_rules! deploys {
    ($($name:ident: $program:ty, $deed:expr;)*) => {
        mod memory {
            use super::*;
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                in_memory::<$program>(stringify!($name), $deed).await;
            })*
        }

        mod on_disk {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                embedded::<$program>(stringify!($name), $deed).await;
            })*
        }
    };
}

deploys! {
    a_property_is_added: Extended, Deed::Nothing;
    an_index_is_added: Indexed, Deed::Build("more");
    a_unique_index_is_added: Unique, Deed::Build("one");
    an_index_is_dropped: Freed, Deed::Drop("known");
    an_index_is_changed: Changed, Deed::Replace("known");
    the_schema_version_is_raised: Raised, Deed::Nothing;
    the_schema_version_is_raised_and_read_by_the_earlier: Readable, Deed::Nothing;
    a_type_is_added: Ticket, Deed::Nothing;
}
