//! A version N of a program writes while a version N + 1 comes, and each of them writes beside the other.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, TableName, ValueRef};
use table_core::store::{Error, ErrorKind, Outcome, Result, TableStore};
use table_core::typed::{Schema, TableEntity as _};
use tokio::time::sleep;

use super::choose::{Bounds, Choose, Random, Systematic};
use super::explore::{Explored, Play, explore};
use super::keepers::FAULT;
use super::programs::{
    ADDED, Before, CODE, COUNT, Changed, Extended, Freed, Indexed, NOTE, Program, Raised, Readable, Ticket,
    Unique,
};
use super::queue::Messages;
use super::rest::{Phase, Rest, Verdict};
use super::stage::Stage;
use super::store::{StagedStore, UNWATCHED};
use super::told::Told;
use super::world::{CLIENT, LEASE, SERVER};
use crate::index::{Index, IndexOptions, IndexState, IndexedTable};
use crate::journal::{Rule, Timing};

const TABLE: &str = "People";

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Insert(&'static str, &'static str),
    Update(&'static str, &'static str),
    Merge(&'static str),
    Delete(&'static str),
    /// Builds an index of its own.
    Build(&'static str),
    /// Drops the generation of an index that version N has.
    Drop(&'static str),
}

use Deed::{Build, Delete, Drop, Insert, Merge, Update};

/// Processes of version N, and of another program: version N + 1 or one of another type.
#[derive(Debug)]
struct Deploy<P> {
    /// What version N has written before; a new table, where that is nothing.
    start: &'static [(&'static str, &'static str)],
    older: &'static [&'static [Deed]],
    newer: &'static [&'static [Deed]],
    /// When the processes of version N begin to write, which have opened the table by then.
    after: Duration,
    /// The property that no two entities have alike at any time.
    watched: &'static str,
    broken: Option<Rule>,
    program: PhantomData<fn() -> P>,
}

impl<P> Copy for Deploy<P> {}

impl<P> Clone for Deploy<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Program> Deploy<P> {
    const fn new(older: &'static [&'static [Deed]], newer: &'static [&'static [Deed]]) -> Self {
        let (start, after, program) = (&[("x", "a")], Duration::ZERO, PhantomData);
        Self { start, older, newer, after, watched: UNWATCHED, broken: None, program }
    }

    const fn in_a_new_table(self) -> Self {
        Self { start: &[], ..self }
    }

    const fn watching(self, watched: &'static str) -> Self {
        Self { watched, ..self }
    }

    const fn breaking(self, rule: Rule) -> Self {
        Self { broken: Some(rule), ..self }
    }

    fn explore(self, chooser: impl Choose) -> Explored {
        explore(chooser, &async |stage: &Stage| {
            let place = Place::new(stage, self).await?;
            let mut tasks = Vec::new();
            for deeds in self.older {
                tasks.push(place.process::<Before>(tasks.len(), deeds, self.after));
            }
            for deeds in self.newer {
                tasks.push(place.process::<P>(tasks.len(), deeds, Duration::ZERO));
            }
            Ok(Play { tasks, verdict: place.verdict() })
        })
    }

    /// Explores with older programs that write at each moment at which a build or a drop acts.
    fn at_all_moments(self, bounds: Bounds) -> Explored {
        let moments = [0, 200, 400, 600].map(Duration::from_millis);
        Explored::sum(moments.map(|after| Self { after, ..self }.explore(Systematic::new(bounds))))
    }

    /// Every deed with its mark, and whether its program is the newer.
    fn deeds(&self) -> impl Iterator<Item = (String, Deed, bool)> {
        let all = self.older.iter().map(|deeds| (*deeds, false)).chain(self.newer.iter().map(|d| (*d, true)));
        let marked = |(task, (deeds, newer)): (usize, (&'static [Deed], bool))| {
            deeds.iter().enumerate().map(move |(n, deed)| (mark(task, n), *deed, newer))
        };
        all.enumerate().flat_map(marked)
    }
}

fn mark(task: usize, n: usize) -> String {
    format!("{task}.{n}")
}

fn table() -> TableName {
    TableName::new(TABLE).unwrap()
}

fn key(id: &str) -> Key {
    Key::new("p", format!("id_{id}")).unwrap()
}

/// The indexes of a program, by their definitions alone.
fn indexes<P: Program>() -> Vec<Index> {
    P::SCHEMA.indexes.iter().cloned().map(|definition| Index::from_definition(definition).unwrap()).collect()
}

/// The generation of an index that version N has.
fn id_before(name: &str) -> String {
    indexes::<Before>().into_iter().find(|index| index.name() == name).unwrap().id().to_owned()
}

#[derive(Debug)]
struct Place<P> {
    of: Deploy<P>,
    stage: Stage,
    store: MemoryStore,
    told: Told,
}

impl<P> Clone for Place<P> {
    fn clone(&self) -> Self {
        let Self { of, stage, store, told } = self;
        Self { of: *of, stage: stage.clone(), store: store.clone(), told: told.clone() }
    }
}

impl<P: Program> Place<P> {
    async fn new(stage: &Stage, of: Deploy<P>) -> Result<Self> {
        let place = Self { of, stage: stage.clone(), store: MemoryStore::new(), told: Told::default() };
        place.store.create_table(&table()).await?;
        if !of.start.is_empty() {
            let founder = place.open::<Before>(None).await?;
            for (id, value) in of.start {
                founder.insert(&Before::new(id, value, "start")).await?;
            }
        }
        Ok(place)
    }

    /// A process; each request of one with a task waits for its turn, those by which it opens the table too.
    async fn open<Q: Program>(&self, task: Option<usize>) -> Result<IndexedTable<Q>> {
        let mut options = IndexOptions::local();
        options.timing = Timing::new(LEASE, CLIENT, SERVER)?;
        let Some(task) = task else { return IndexedTable::open(self.store.clone(), TABLE, options).await };
        let store = StagedStore {
            store: self.store.clone(),
            stage: self.stage.clone(),
            task,
            watched: (table(), self.of.watched),
            live: Arc::new(AtomicBool::new(true)),
            reads_only: false,
        };
        Ok(IndexedTable::open(store, TABLE, options).await?.breaking(self.of.broken))
    }

    fn process<Q: Program>(
        &self,
        task: usize,
        deeds: &'static [Deed],
        after: Duration,
    ) -> BoxFuture<'static, ()> {
        let place = self.clone();
        Box::pin(async move {
            let Ok(people) = place.open::<Q>(Some(task)).await else { return };
            if after > Duration::ZERO {
                sleep(after).await;
            }
            for (n, deed) in deeds.iter().enumerate() {
                let mark = mark(task, n);
                let answer = perform(&people, *deed, &mark).await;
                place.stage.note(|| format!("task {task} ends {deed:?} with {answer:?}"));
                place.tell(*deed, mark, answer);
            }
        })
    }

    fn tell(&self, deed: Deed, mark: String, answer: Result<()>) {
        match deed {
            Insert(..) | Update(..) | Merge(_) => {}
            Delete(_) | Build(_) | Drop(_) => return,
        }
        match answer {
            Ok(()) if !self.stage.is_committed(&mark) => {
                self.stage.accuse(format!("{mark} was told that it was written"));
            }
            Err(error) if is_readable_before::<P>() && is_of_the_later(&error) => {
                self.stage.accuse(format!("{mark} was refused: {error}"));
            }
            // What is read after an update is not its write.
            Err(error) if matches!(deed, Update(..)) && error.outcome() == Outcome::Applied => {}
            Ok(()) => self.told.outcome(mark, None),
            Err(error) => self.told.outcome(mark, Some(error.outcome())),
        }
    }

    fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let place = self.clone();
        Box::pin(async move { Ok(place.judge().await?.err()) })
    }

    /// The indexes that can be read are what the entities are, and so are all of them once version N + 1 has done what it
    /// was to do. No property was lost.
    async fn judge(&self) -> Result<Verdict> {
        let (older, newer) = (self.open::<Before>(None).await?, self.open::<P>(None).await?);
        // Whoever comes first settles the writes that are left, of whichever program. Unique entries are in the same table.
        let reserved = [table()];
        older.entities().journal().sweep(&reserved, Duration::ZERO).await?;
        for _ in 0..2 {
            newer.entities().journal().sweep(&reserved, Duration::ZERO).await?;
        }
        if let Err(wrong) = self.told.check(&self.stage) {
            return Ok(Err(wrong));
        }
        let rest = self.rest().await?;
        if let Err(wrong) = self.check_properties(&rest.entities) {
            return Ok(Err(wrong));
        }
        if let Err(wrong) = self.check_readable(&newer, false).await? {
            return Ok(Err(format!("{wrong}, and the index is readable")));
        }
        if is_apart::<P>() && !self.is_all_readable(&newer).await? {
            return Ok(Err("the first of a type finds its indexes not readable".to_owned()));
        }
        self.finish(&newer).await?;
        if !self.is_all_readable(&newer).await? {
            return Ok(Err(format!("the indexes are {:?}", newer.entities().declared().await?)));
        }
        self.check_readable(&newer, true).await
    }

    async fn rest(&self) -> Result<Rest> {
        Rest::read(&self.store, &table(), &[], &Messages::default(), Phase::Swept).await
    }

    /// Compares the entries of the indexes that are readable, or all entries that there are, with the entities.
    async fn check_readable(&self, newer: &IndexedTable<P>, all: bool) -> Result<Verdict> {
        let declared = newer.entities().declared().await?;
        let readable = declared.into_iter().filter(|index| index.state == IndexState::Readable);
        let definitions = readable.map(|index| index.definition.expect("of this format"));
        let readable = definitions.map(Index::from_definition).collect::<Result<Vec<_>>>()?;
        let rest = self.rest().await?;
        if let Err(wrong) = rest.check_evidence() {
            return Ok(Err(wrong));
        }
        let ids: Vec<_> = readable.iter().map(Index::id).collect();
        let rest = if all { rest } else { rest.of_indexes(&ids) };
        let derive = |entity: &Entity| {
            let entries = readable.iter().map(|index| index.entries(&table(), entity));
            Ok(entries.collect::<Result<Vec<_>>>()?.concat())
        };
        rest.check_entries(&self.store, &table(), derive).await
    }

    /// Whether the indexes that there are to be are readable, and there are no others.
    async fn is_all_readable(&self, newer: &IndexedTable<P>) -> Result<bool> {
        let declared = newer.entities().declared().await?;
        let mut wanted: Vec<_> = indexes::<P>().iter().map(|index| index.id().to_owned()).collect();
        wanted.extend(indexes::<Before>().iter().map(|index| index.id().to_owned()));
        wanted.retain(|id| !self.dropped().contains(id));
        let is_readable = |id: &String| {
            declared.iter().any(|index| index.id() == *id && index.state == IndexState::Readable)
        };
        Ok(wanted.iter().all(is_readable) && declared.iter().all(|index| wanted.contains(&index.id())))
    }

    /// The generations that version N + 1 drops.
    fn dropped(&self) -> Vec<String> {
        let dropped = |(_, deed, _)| match deed {
            Drop(name) => Some(id_before(name)),
            _ => None,
        };
        self.of.deeds().filter_map(dropped).collect()
    }

    /// Does what the processes were to do with the indexes.
    async fn finish(&self, newer: &IndexedTable<P>) -> Result<()> {
        for (_, deed, _) in self.of.deeds() {
            let Build(_) = deed else { continue };
            newer.entities().refresh().await?;
            match perform(newer, deed, "").await {
                // Of two that have one value one gives way.
                Err(error) if is_duplicate(&error) => {
                    newer.delete_if_exists(key("y")).await?;
                    perform(newer, deed, "").await?;
                }
                built => built?,
            }
        }
        let declared = newer.entities().declared().await?;
        for id in self.dropped() {
            if declared.iter().any(|index| index.id() == id) {
                newer.entities().drop_index(&id).await?;
            }
        }
        Ok(())
    }

    /// What each program has counted in an entity that was there throughout is still there.
    fn check_properties(&self, entities: &[Entity]) -> Verdict {
        for (id, _) in self.of.start {
            let was_away = |deed: Deed| matches!(deed, Insert(other, _) | Delete(other) if other == *id);
            if self.of.deeds().any(|(_, deed, _)| was_away(deed)) {
                continue;
            }
            let done: Vec<_> = self.of.deeds().filter(|(mark, ..)| self.stage.is_committed(mark)).collect();
            let changes = |by_newer: bool| {
                let done = done.iter().filter(|(_, deed, newer)| {
                    matches!(deed, Update(other, _) if other == id) && (*newer || !by_newer)
                });
                done.count()
            };
            let noted = done.iter().any(|(_, deed, _)| matches!(deed, Merge(other) if other == id));
            let entity = entities.iter().find(|entity| *entity.key() == key(id));
            let entity = entity.ok_or_else(|| format!("{id} is not there"))?;
            let held = |name| match entity.get(name) {
                Some(ValueRef::Int32(count)) => count as usize,
                _ => 0,
            };
            let counts = (held(COUNT), held(ADDED), entity.get(NOTE).is_some());
            let wanted = (changes(false), changes(true), noted);
            let version = entity.get(Schema::VERSION_PROPERTY);
            if is_readable_before::<P>() && held(ADDED) > 0 && version != Some(ValueRef::Int32(2)) {
                return Err(format!("{id} has become an entity of {version:?}, by a write of version N"));
            }
            if counts != wanted {
                return Err(format!("{id} has {counts:?} and not {wanted:?} of what was written"));
            }
        }
        Ok(())
    }
}

/// Whether a program's entities are of another type than those of version N.
fn is_apart<P: Program>() -> bool {
    P::SCHEMA.entity_type().is_apart_from(&Before::SCHEMA.entity_type())
}

/// Whether a program's rows are of a later version that version N reads.
fn is_readable_before<P: Program>() -> bool {
    P::SCHEMA.min_reader < P::SCHEMA.version
}

/// Whether a write was refused because the row is of version 2.
fn is_of_the_later(error: &Error) -> bool {
    let text = error.to_string();
    ["the newest that this program knows", "is stored in version 2"].iter().any(|why| text.contains(why))
}

fn is_duplicate(error: &Error) -> bool {
    matches!(error.root().kind(), ErrorKind::DuplicateValues { .. })
}

async fn perform<P: Program>(people: &IndexedTable<P>, deed: Deed, mark: &str) -> Result<()> {
    match deed {
        Insert(id, value) => people.insert(&P::new(id, value, mark)).await.map(drop),
        Update(id, value) => {
            let change = |entity: &mut P| {
                entity.change(value, mark);
                Ok(())
            };
            people.update(key(id), change).await.map(drop)
        }
        Merge(id) => people.merge(key(id), &P::noted(mark), IfMatch::Any).await.map(drop),
        Delete(id) => people.delete_if_exists(key(id)).await.map(drop),
        Build(name) if people.entities().state(name) == IndexState::Readable => Ok(()),
        Build(name) => people.entities().build(name)?.run().await.map(drop),
        Drop(name) => people.entities().drop_index(&id_before(name)).await,
    }
}

const ALL: Bounds = Bounds::all_orders();
/// One fault of anybody, at any request.
const ONE_FAULT: Bounds = FAULT.switching(0);

const CHANGES: &[&[Deed]] = &[&[Update("x", "b")]];
const COMES_AND_CHANGES: &[&[Deed]] = &[&[Insert("y", "b"), Update("x", "c")]];
const NOTES: &[&[Deed]] = &[&[Merge("x")]];
const GOES: &[&[Deed]] = &[&[Delete("x")]];

const ADDS: &[&[Deed]] = &[&[Build("more")]];
const ADDS_AND_WRITES: &[&[Deed]] = &[&[Build("more"), Update("x", "c")]];
const ADDS_TWICE: &[&[Deed]] = &[&[Build("more")], &[Build("more"), Update("x", "c")]];
const MOVES_ON: &[&[Deed]] = &[&[Build("known"), Drop("known")]];
const FREES: &[&[Deed]] = &[&[Drop("known")]];
const MAKES_UNIQUE: &[&[Deed]] = &[&[Build("one")]];

#[test]
fn an_index_is_added() {
    let scenes = [CHANGES, NOTES, GOES, COMES_AND_CHANGES].map(|older| Deploy::<Indexed>::new(older, ADDS));
    Explored::sum(scenes.map(|scene| scene.at_all_moments(ALL.switching(1))))
        .assert_right("version N writes while N + 1 adds an index");
    let scene = Deploy::<Indexed>::new(CHANGES, ADDS_AND_WRITES);
    scene.at_all_moments(ONE_FAULT).assert_right("version N writes while N + 1 adds an index, and a fault");
    let scene = Deploy::<Indexed>::new(&[&[Insert("x", "a")]], &[&[Insert("y", "a"), Build("more")]]);
    let scene = scene.in_a_new_table();
    let explored = [ALL.switching(2), ONE_FAULT].map(|bounds| scene.explore(Systematic::new(bounds)));
    for (explored, more) in explored.into_iter().zip(["", ", and a fault"]) {
        explored.assert_right(&format!("versions N and N + 1 open a new table{more}"));
    }
}

#[test]
fn an_index_has_another_definition() {
    let scenes = [CHANGES, COMES_AND_CHANGES].map(|older| Deploy::<Changed>::new(older, MOVES_ON));
    Explored::sum(scenes.map(|scene| scene.at_all_moments(ALL.switching(1))))
        .assert_right("version N writes while N + 1 changes an index");
    let scene = Deploy::<Changed>::new(CHANGES, MOVES_ON);
    scene
        .at_all_moments(ONE_FAULT)
        .assert_right("version N writes while N + 1 changes an index, and a fault");
}

#[test]
fn an_index_is_dropped() {
    let scenes = [CHANGES, NOTES, COMES_AND_CHANGES].map(|older| Deploy::<Freed>::new(older, FREES));
    Explored::sum(scenes.map(|scene| scene.at_all_moments(ALL.switching(1))))
        .assert_right("version N writes while N + 1 drops an index");
    let scene = Deploy::<Freed>::new(CHANGES, FREES);
    scene.at_all_moments(ONE_FAULT).assert_right("version N writes while N + 1 drops an index, and a fault");
}

#[test]
fn a_unique_index_is_added() {
    let older: [&[&[Deed]]; 2] = [&[&[Insert("y", "a")]], &[&[Update("x", "b"), Insert("y", "a")]]];
    let scenes = older.map(|older| Deploy::<Unique>::new(older, MAKES_UNIQUE));
    Explored::sum(scenes.map(|scene| scene.at_all_moments(ALL.switching(1))))
        .assert_right("version N writes while N + 1 adds a unique index");
    let scene = Deploy::<Unique>::new(older[1], MAKES_UNIQUE);
    scene
        .at_all_moments(ONE_FAULT)
        .assert_right("version N writes while N + 1 adds a unique index, and a fault");
}

#[test]
fn a_property_is_added() {
    let older: [&[&[Deed]]; 2] = [CHANGES, NOTES];
    let newer: [&[&[Deed]]; 2] = [&[&[Update("x", "c")]], &[&[Merge("x"), Update("x", "c")]]];
    let scenes: Vec<_> =
        older.iter().flat_map(|older| newer.map(|newer| Deploy::<Extended>::new(older, newer))).collect();
    Explored::sum(scenes.iter().map(|scene| scene.explore(Systematic::new(ALL.switching(2)))))
        .assert_right("version N + 1 writes a property more beside N");
    Explored::sum(scenes.iter().map(|scene| scene.explore(Systematic::new(ONE_FAULT))))
        .assert_right("version N + 1 writes a property more beside N, and a fault");
}

#[test]
fn the_schema_version_is_raised() {
    let older: [&[&[Deed]]; 3] = [CHANGES, NOTES, GOES];
    let newer: &[&[Deed]] = &[&[Update("x", "c")]];
    let scenes = older.map(|older| Deploy::<Raised>::new(older, newer));
    Explored::sum(scenes.map(|scene| scene.explore(Systematic::new(ALL.switching(2)))))
        .assert_right("version N + 1 raises the schema version beside N");
    Explored::sum(scenes.map(|scene| scene.explore(Systematic::new(ONE_FAULT))))
        .assert_right("version N + 1 raises the schema version beside N, and a fault");
}

#[test]
fn the_schema_version_is_raised_and_read_by_the_earlier() {
    let older: [&[&[Deed]]; 3] = [CHANGES, NOTES, GOES];
    let newer: &[&[Deed]] = &[&[Update("x", "c"), Merge("x")]];
    let scenes = older.map(|older| Deploy::<Readable>::new(older, newer));
    Explored::sum(scenes.map(|scene| scene.explore(Systematic::new(ALL.switching(2)))))
        .assert_right("version N + 1 raises the schema version, and N reads its rows");
}

#[test]
fn a_second_type_comes() {
    let newer: &[&[Deed]] = &[&[Insert("t", "a"), Update("t", "b")]];
    let scene = Deploy::<Ticket>::new(CHANGES, newer).watching(CODE);
    for (scene, place) in [(scene, ""), (scene.in_a_new_table(), ", in a new table")] {
        let name = format!("a second type comes{place}");
        scene.explore(Systematic::new(ALL.switching(2))).assert_right(&name);
        scene.explore(Systematic::new(ONE_FAULT)).assert_right(&format!("{name}, and a fault"));
    }
    let two = Deploy::<Ticket>::new(CHANGES, &[&[Insert("t", "a")], &[Insert("u", "a")]]).watching(CODE);
    two.explore(Systematic::new(ALL.switching(1))).assert_right("two programs of a second type come");
}

/// Two of version N, one of them busy, and one or two of version N + 1, with faults.
fn by_chance<P: Program>(name: &str, scene: Deploy<P>) {
    let moments = [0, 200, 500].map(Duration::from_millis);
    let bounds = ALL.with_faults(2, FAULT.kinds);
    let explored = moments
        .into_iter()
        .zip((1..).step_by(1000))
        .map(|(after, seed)| Deploy { after, ..scene }.explore(Random::new(bounds, seed, 50)));
    Explored::sum(explored).assert_right(&format!("{name}, in a crowd"));
}

const BUSY: &[&[Deed]] =
    &[&[Update("x", "b"), Insert("y", "a"), Merge("x"), Update("x", "a")], &[Delete("y"), Update("x", "c")]];

#[test]
fn deployments_by_chance() {
    by_chance(
        "version N + 1 adds a property",
        Deploy::<Extended>::new(BUSY, &[&[Update("x", "c"), Merge("x")]]),
    );
    by_chance("version N + 1 adds an index", Deploy::<Indexed>::new(BUSY, ADDS_AND_WRITES));
    by_chance("version N + 1 adds an index twice", Deploy::<Indexed>::new(BUSY, ADDS_TWICE));
    by_chance("version N + 1 changes an index", Deploy::<Changed>::new(BUSY, MOVES_ON));
    by_chance("version N + 1 drops an index", Deploy::<Freed>::new(BUSY, FREES));
    by_chance("version N + 1 adds a unique index", Deploy::<Unique>::new(BUSY, MAKES_UNIQUE));
    by_chance("version N + 1 raises the schema version", Deploy::<Raised>::new(BUSY, &[&[Update("x", "c")]]));
    let tickets: &[&[Deed]] = &[&[Insert("t", "a"), Update("t", "b")], &[Insert("u", "a"), Update("u", "b")]];
    by_chance("a second type comes", Deploy::<Ticket>::new(BUSY, tickets).watching(CODE));
}

/// The suite notices where nobody waits for version N, which relies on the states that it knows.
#[test]
fn deployments_wait_for_writers() {
    let scene = Deploy::<Indexed>::new(CHANGES, ADDS).breaking(Rule::WaitForWriters);
    let explored = scene.explore(Systematic::new(ALL.switching(1)));
    let (what, _) = explored.wrong.expect("nothing notices that nobody waits");
    eprintln!("without WaitForWriters, schedule {} ends wrong: {what}", explored.schedules);
}
