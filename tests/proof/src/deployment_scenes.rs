//! Scenes of deployments: version N of a program writes while version N + 1 starts, and both write at the same time.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, TableName, ValueRef};
use table_core::store::{
    Error, ErrorKind, Outcome, Result, ServiceProfile, StoreContext, TableStore,
};
use table_core::typed::{Schema, TableEntity as _};
use tokio::time::sleep;

use super::Invariant;
use super::acknowledgements::Acknowledgements;
use super::chooser::{Bounds, Choose, Random, Systematic};
use super::explorer::{Explored, Schedule, explore};
use super::final_state::{FinalState, Phase, Verdict};
use super::journal_model::{CLIENT, LEASE, SERVER};
use super::maintenance::FAULT;
use super::program_versions::{
    ADDED, Before, CODE, COUNT, Changed, Extended, Freed, Indexed, NOTE, Program, Raised, Readable,
    Ticket, Unique,
};
use super::scheduled_queue::Messages;
use super::scheduled_store::{ScheduledStore, UNWATCHED};
use super::scheduler::Scheduler;
use crate::patterns::index::{Index, IndexOptions, IndexState};
use crate::patterns::journal::Timing;
use crate::patterns::{Database, Table};

const TABLE: &str = "People";

/// Opens the table as a program that writes it.
async fn open<Q: Program>(db: Database) -> Result<Table<Q>> {
    let table = db.table(TABLE)?;
    table.entities().await?;
    Ok(table)
}

/// The action of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramAction {
    Insert(&'static str, &'static str),
    Update(&'static str, &'static str),
    Merge(&'static str),
    Delete(&'static str),
    /// Builds an index of its own program.
    Build(&'static str),
    /// Drops the generation of an index that version N declares.
    Drop(&'static str),
}

use ProgramAction::{Build, Delete, Drop, Insert, Merge, Update};

/// Processes of version N and of another program: version N + 1, or a program with another entity type.
#[derive(Debug)]
struct Deployment<P> {
    /// The entities that version N has written before; the table is new if there are none.
    start: &'static [(&'static str, &'static str)],
    older: &'static [&'static [ProgramAction]],
    newer: &'static [&'static [ProgramAction]],
    /// The time at which processes of version N start to write; they have opened the table before.
    writers_start: Duration,
    /// The property that must be unique after every write.
    watched: &'static str,
    omitted: Option<Invariant>,
    program: PhantomData<fn() -> P>,
}

impl<P> Copy for Deployment<P> {}

impl<P> Clone for Deployment<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Program> Deployment<P> {
    const fn new(
        older: &'static [&'static [ProgramAction]],
        newer: &'static [&'static [ProgramAction]],
    ) -> Self {
        let (start, writers_start, program) = (&[("x", "a")], Duration::ZERO, PhantomData);
        Self {
            start,
            older,
            newer,
            writers_start,
            watched: UNWATCHED,
            omitted: None,
            program,
        }
    }

    const fn in_a_new_table(self) -> Self {
        Self { start: &[], ..self }
    }

    const fn watching(self, watched: &'static str) -> Self {
        Self { watched, ..self }
    }

    const fn without_invariant(self, invariant: Invariant) -> Self {
        Self {
            omitted: Some(invariant),
            ..self
        }
    }

    fn explore(self, chooser: impl Choose) -> Explored {
        explore(chooser, self.omitted, &async |scheduler: &Scheduler| {
            let model = DeploymentModel::new(scheduler, self).await?;
            let mut tasks = Vec::new();
            for actions in self.older {
                tasks.push(model.process::<Before>(tasks.len(), actions, self.writers_start));
            }
            for actions in self.newer {
                tasks.push(model.process::<P>(tasks.len(), actions, Duration::ZERO));
            }
            Ok(Schedule {
                tasks,
                verdict: model.verdict(),
            })
        })
    }

    /// Explores with processes of version N that start at each time at which a build or a drop acts.
    fn at_all_moments(self, bounds: Bounds) -> Explored {
        let moments = [0, 200, 400, 600].map(Duration::from_millis);
        Explored::sum(moments.map(|writers_start| {
            Self {
                writers_start,
                ..self
            }
            .explore(Systematic::new(bounds))
        }))
    }

    /// All actions with their marks. The flag says whether the newer program performs the action.
    fn actions(&self) -> impl Iterator<Item = (String, ProgramAction, bool)> {
        let all = self
            .older
            .iter()
            .map(|actions| (*actions, false))
            .chain(self.newer.iter().map(|d| (*d, true)));
        let marked = |(task, (actions, newer)): (usize, (&'static [ProgramAction], bool))| {
            actions
                .iter()
                .enumerate()
                .map(move |(n, action)| (mark(task, n), *action, newer))
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

/// The indexes that a program declares.
fn indexes<P: Program>() -> Vec<Index> {
    P::SCHEMA
        .indexes
        .iter()
        .cloned()
        .map(|definition| Index::from_definition(definition).unwrap())
        .collect()
}

/// The id of the generation of an index that version N declares.
fn id_before(name: &str) -> String {
    indexes::<Before>()
        .into_iter()
        .find(|index| index.name() == name)
        .unwrap()
        .id()
        .to_owned()
}

#[derive(Debug)]
struct DeploymentModel<P> {
    scene: Deployment<P>,
    scheduler: Scheduler,
    store: MemoryStore,
    acknowledgements: Acknowledgements,
}

impl<P> Clone for DeploymentModel<P> {
    fn clone(&self) -> Self {
        let Self {
            scene,
            scheduler,
            store,
            acknowledgements,
        } = self;
        Self {
            scene: *scene,
            scheduler: scheduler.clone(),
            store: store.clone(),
            acknowledgements: acknowledgements.clone(),
        }
    }
}

impl<P: Program> DeploymentModel<P> {
    async fn new(scheduler: &Scheduler, scene: Deployment<P>) -> Result<Self> {
        let model = Self {
            scene,
            scheduler: scheduler.clone(),
            store: MemoryStore::new(),
            acknowledgements: Acknowledgements::default(),
        };
        model.store.create_table(&table()).await?;
        if !scene.start.is_empty() {
            let founder = model.open::<Before>(None).await?;
            for (id, value) in scene.start {
                founder.insert(&Before::new(id, value, "start")).await?;
            }
        }
        Ok(model)
    }

    /// A process. With a task, all its requests wait for the scheduler, including the requests that open the table.
    async fn open<Q: Program>(&self, task: Option<usize>) -> Result<Table<Q>> {
        let mut options =
            IndexOptions::local().with_clearing(crate::patterns::journal::Clearing::BeforeAnswer);
        options.timing = Timing::new(LEASE, CLIENT, SERVER)?;
        let Some(task) = task else {
            return open(Database::with_options(self.store.clone(), options)).await;
        };
        let store = ScheduledStore {
            context: StoreContext::new(&ServiceProfile::LOCAL),
            store: self.store.clone(),
            scheduler: self.scheduler.clone(),
            task,
            watched: (table(), self.scene.watched),
            live: Arc::new(AtomicBool::new(true)),
            reads_only: false,
        };
        open(Database::with_options(store, options)).await
    }

    fn process<Q: Program>(
        &self,
        task: usize,
        actions: &'static [ProgramAction],
        writers_start: Duration,
    ) -> BoxFuture<'static, ()> {
        let model = self.clone();
        Box::pin(async move {
            let Ok(people) = model.open::<Q>(Some(task)).await else {
                return;
            };
            if writers_start > Duration::ZERO {
                sleep(writers_start).await;
            }
            for (n, action) in actions.iter().enumerate() {
                let mark = mark(task, n);
                let answer = perform(&people, *action, &mark).await;
                model
                    .scheduler
                    .note(|| format!("task {task} ends {action:?} with {answer:?}"));
                model.add_answer(*action, mark, answer);
            }
        })
    }

    fn add_answer(&self, action: ProgramAction, mark: String, answer: Result<()>) {
        match action {
            Insert(..) | Update(..) | Merge(_) => {}
            Delete(_) | Build(_) | Drop(_) => return,
        }
        match answer {
            Ok(()) if !self.scheduler.is_committed(&mark) => {
                self.scheduler.report_violation(format!(
                    "the write {mark} was answered with success and is not committed"
                ));
            }
            Err(error) if is_readable_before::<P>() && is_of_the_later(&error) => {
                self.scheduler.report_violation(format!(
                    "the write {mark} was refused although version N can read the row: {error}"
                ));
            }
            // An update reads the entity after its write. That read may fail although the write is applied.
            Err(error) if matches!(action, Update(..)) && error.outcome() == Outcome::Applied => {}
            Ok(()) => self.acknowledgements.outcome(mark, None),
            Err(error) => self.acknowledgements.outcome(mark, Some(error.outcome())),
        }
    }

    fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let model = self.clone();
        Box::pin(async move { Ok(model.judge().await?.err()) })
    }

    /// Checks the readable indexes; then finishes the builds and drops of version N + 1 and checks all indexes. No
    /// property may be lost.
    async fn judge(&self) -> Result<Verdict> {
        let (older, newer) = (
            self.open::<Before>(None).await?,
            self.open::<P>(None).await?,
        );
        // Sweeps of both programs finish the writes that are left. Unique entries are in the same table.
        let reserved = [table()];
        older
            .entities()
            .await
            .expect("an open table")
            .journal()
            .sweep(&reserved, Duration::ZERO)
            .await?;
        for _ in 0..2 {
            newer
                .entities()
                .await
                .expect("an open table")
                .journal()
                .sweep(&reserved, Duration::ZERO)
                .await?;
        }
        if let Err(wrong) = self.acknowledgements.check(&self.scheduler) {
            return Ok(Err(wrong));
        }
        let final_state = self.final_state().await?;
        if let Err(wrong) = self.check_properties(&final_state.entities) {
            return Ok(Err(wrong));
        }
        if let Err(wrong) = self.check_readable(&newer, false).await? {
            return Ok(Err(format!("{wrong}, and the index is readable")));
        }
        if is_apart::<P>() && !self.is_all_readable(&newer).await? {
            return Ok(Err(
                "the first program of an entity type finds its indexes not readable".to_owned(),
            ));
        }
        self.finish(&newer).await?;
        if !self.is_all_readable(&newer).await? {
            return Ok(Err(format!(
                "the indexes are {:?}",
                newer
                    .entities()
                    .await
                    .expect("an open table")
                    .declared()
                    .await?
            )));
        }
        self.check_readable(&newer, true).await
    }

    async fn final_state(&self) -> Result<FinalState> {
        FinalState::read(
            &self.store,
            &table(),
            &[],
            &Messages::default(),
            Phase::Swept,
        )
        .await
    }

    /// Compares entries with the entities: the entries of the readable indexes, or with `all` every entry.
    async fn check_readable(&self, newer: &Table<P>, all: bool) -> Result<Verdict> {
        let declared = newer
            .entities()
            .await
            .expect("an open table")
            .declared()
            .await?;
        let readable = declared
            .into_iter()
            .filter(|index| index.state == IndexState::Readable);
        let definitions = readable.map(|index| index.definition.expect("of this format"));
        let readable = definitions
            .map(Index::from_definition)
            .collect::<Result<Vec<_>>>()?;
        let final_state = self.final_state().await?;
        if let Err(wrong) = final_state.check_evidence() {
            return Ok(Err(wrong));
        }
        let ids: Vec<_> = readable.iter().map(Index::id).collect();
        let final_state = if all {
            final_state
        } else {
            final_state.of_indexes(&ids)
        };
        let derive = |entity: &Entity| {
            let entries = readable.iter().map(|index| index.entries(&table(), entity));
            Ok(entries.collect::<Result<Vec<_>>>()?.concat())
        };
        final_state
            .check_entries(&self.store, &table(), derive)
            .await
    }

    /// Whether exactly the declared indexes exist, and all are readable.
    async fn is_all_readable(&self, newer: &Table<P>) -> Result<bool> {
        let declared = newer
            .entities()
            .await
            .expect("an open table")
            .declared()
            .await?;
        let mut wanted: Vec<_> = indexes::<P>()
            .iter()
            .map(|index| index.id().to_owned())
            .collect();
        wanted.extend(
            indexes::<Before>()
                .iter()
                .map(|index| index.id().to_owned()),
        );
        wanted.retain(|id| !self.dropped().contains(id));
        let is_readable = |id: &String| {
            declared
                .iter()
                .any(|index| index.id() == *id && index.state == IndexState::Readable)
        };
        Ok(wanted.iter().all(is_readable)
            && declared.iter().all(|index| wanted.contains(&index.id())))
    }

    /// The generations that version N + 1 drops.
    fn dropped(&self) -> Vec<String> {
        let dropped = |(_, action, _)| match action {
            Drop(name) => Some(id_before(name)),
            _ => None,
        };
        self.scene.actions().filter_map(dropped).collect()
    }

    /// Finishes the builds and drops of the scene.
    async fn finish(&self, newer: &Table<P>) -> Result<()> {
        for (_, action, _) in self.scene.actions() {
            let Build(_) = action else { continue };
            newer
                .entities()
                .await
                .expect("an open table")
                .refresh()
                .await?;
            match perform(newer, action, "").await {
                // Two entities have one value: delete one of them and build again.
                Err(error) if is_duplicate(&error) => {
                    newer.delete_if_exists(key("y")).await?;
                    perform(newer, action, "").await?;
                }
                built => built?,
            }
        }
        let declared = newer
            .entities()
            .await
            .expect("an open table")
            .declared()
            .await?;
        for id in self.dropped() {
            if declared.iter().any(|index| index.id() == id) {
                newer
                    .entities()
                    .await
                    .expect("an open table")
                    .drop_index(&id)
                    .await?;
            }
        }
        Ok(())
    }

    /// Checks the counters that each program keeps in an entity that was never deleted.
    fn check_properties(&self, entities: &[Entity]) -> Verdict {
        for (id, _) in self.scene.start {
            let was_away = |action: ProgramAction| matches!(action, Insert(other, _) | Delete(other) if other == *id);
            if self.scene.actions().any(|(_, action, _)| was_away(action)) {
                continue;
            }
            let done: Vec<_> = self
                .scene
                .actions()
                .filter(|(mark, ..)| self.scheduler.is_committed(mark))
                .collect();
            let changes = |by_newer: bool| {
                let done = done.iter().filter(|(_, action, newer)| {
                    matches!(action, Update(other, _) if other == id) && (*newer || !by_newer)
                });
                done.count()
            };
            let noted = done
                .iter()
                .any(|(_, action, _)| matches!(action, Merge(other) if other == id));
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
                return Err(format!(
                    "a write of version N has set the schema version of {id} to {version:?}"
                ));
            }
            if counts != wanted {
                return Err(format!(
                    "{id} has the counters {counts:?}, expected {wanted:?}"
                ));
            }
        }
        Ok(())
    }
}

/// Whether a program's entity type differs from that of version N.
fn is_apart<P: Program>() -> bool {
    P::SCHEMA
        .entity_type()
        .is_disjoint_from(&Before::SCHEMA.entity_type())
}

/// Whether a program writes a later schema version that version N can read.
fn is_readable_before<P: Program>() -> bool {
    P::SCHEMA.min_reader < P::SCHEMA.version
}

/// Whether a write was refused because the row has schema version 2.
fn is_of_the_later(error: &Error) -> bool {
    let text = error.to_string();
    [
        "the latest version that this program can read",
        "is stored in version 2",
    ]
    .iter()
    .any(|why| text.contains(why))
}

fn is_duplicate(error: &Error) -> bool {
    matches!(error.root().kind(), ErrorKind::DuplicateValues { .. })
}

async fn perform<P: Program>(people: &Table<P>, action: ProgramAction, mark: &str) -> Result<()> {
    match action {
        Insert(id, value) => people.insert(&P::new(id, value, mark)).await.map(drop),
        Update(id, value) => {
            let change = |entity: &mut P| {
                entity.change(value, mark);
                Ok(())
            };
            people.update(key(id), change).await.map(drop)
        }
        Merge(id) => people
            .merge(key(id), &P::noted(mark), IfMatch::Any)
            .await
            .map(drop),
        Delete(id) => people.delete_if_exists(key(id)).await.map(drop),
        Build(name)
            if people.entities().await.expect("an open table").state(name)
                == IndexState::Readable =>
        {
            Ok(())
        }
        Build(name) => people
            .entities()
            .await
            .expect("an open table")
            .build(name)?
            .run()
            .await
            .map(drop),
        Drop(name) => {
            people
                .entities()
                .await
                .expect("an open table")
                .drop_index(&id_before(name))
                .await
        }
    }
}

const ALL: Bounds = Bounds::all_orders();
/// One fault of any process at any request.
const ONE_FAULT: Bounds = FAULT.switching(0);

const UPDATE: &[&[ProgramAction]] = &[&[Update("x", "b")]];
const INSERT_AND_UPDATE: &[&[ProgramAction]] = &[&[Insert("y", "b"), Update("x", "c")]];
const MERGE: &[&[ProgramAction]] = &[&[Merge("x")]];
const DELETE: &[&[ProgramAction]] = &[&[Delete("x")]];

const BUILD_INDEX: &[&[ProgramAction]] = &[&[Build("more")]];
const BUILD_AND_UPDATE: &[&[ProgramAction]] = &[&[Build("more"), Update("x", "c")]];
const BUILD_TWICE: &[&[ProgramAction]] = &[&[Build("more")], &[Build("more"), Update("x", "c")]];
const REPLACE_INDEX: &[&[ProgramAction]] = &[&[Build("known"), Drop("known")]];
const DROP_INDEX: &[&[ProgramAction]] = &[&[Drop("known")]];
const BUILD_UNIQUE: &[&[ProgramAction]] = &[&[Build("one")]];

#[test]
fn an_index_is_added() {
    let scenes = [UPDATE, MERGE, DELETE, INSERT_AND_UPDATE]
        .map(|older| Deployment::<Indexed>::new(older, BUILD_INDEX));
    Explored::sum(scenes.map(|scene| scene.at_all_moments(ALL.switching(1))))
        .assert_no_violation("version N writes while N + 1 adds an index");
    let scene = Deployment::<Indexed>::new(UPDATE, BUILD_AND_UPDATE);
    scene
        .at_all_moments(ONE_FAULT)
        .assert_no_violation("version N writes while N + 1 adds an index, and a fault");
    let scene = Deployment::<Indexed>::new(
        &[&[Insert("x", "a")]],
        &[&[Insert("y", "a"), Build("more")]],
    );
    let scene = scene.in_a_new_table();
    let explored =
        [ALL.switching(2), ONE_FAULT].map(|bounds| scene.explore(Systematic::new(bounds)));
    for (explored, more) in explored.into_iter().zip(["", ", and a fault"]) {
        explored.assert_no_violation(&format!("versions N and N + 1 open a new table{more}"));
    }
}

#[test]
fn an_index_has_another_definition() {
    let scenes =
        [UPDATE, INSERT_AND_UPDATE].map(|older| Deployment::<Changed>::new(older, REPLACE_INDEX));
    Explored::sum(scenes.map(|scene| scene.at_all_moments(ALL.switching(1))))
        .assert_no_violation("version N writes while N + 1 changes an index");
    let scene = Deployment::<Changed>::new(UPDATE, REPLACE_INDEX);
    scene
        .at_all_moments(ONE_FAULT)
        .assert_no_violation("version N writes while N + 1 changes an index, and a fault");
}

#[test]
fn an_index_is_dropped() {
    let scenes =
        [UPDATE, MERGE, INSERT_AND_UPDATE].map(|older| Deployment::<Freed>::new(older, DROP_INDEX));
    Explored::sum(scenes.map(|scene| scene.at_all_moments(ALL.switching(1))))
        .assert_no_violation("version N writes while N + 1 drops an index");
    let scene = Deployment::<Freed>::new(UPDATE, DROP_INDEX);
    scene
        .at_all_moments(ONE_FAULT)
        .assert_no_violation("version N writes while N + 1 drops an index, and a fault");
}

#[test]
fn a_unique_index_is_added() {
    let older: [&[&[ProgramAction]]; 2] = [
        &[&[Insert("y", "a")]],
        &[&[Update("x", "b"), Insert("y", "a")]],
    ];
    let scenes = older.map(|older| Deployment::<Unique>::new(older, BUILD_UNIQUE));
    Explored::sum(scenes.map(|scene| scene.at_all_moments(ALL.switching(1))))
        .assert_no_violation("version N writes while N + 1 adds a unique index");
    let scene = Deployment::<Unique>::new(older[1], BUILD_UNIQUE);
    scene
        .at_all_moments(ONE_FAULT)
        .assert_no_violation("version N writes while N + 1 adds a unique index, and a fault");
}

#[test]
fn a_property_is_added() {
    let older: [&[&[ProgramAction]]; 2] = [UPDATE, MERGE];
    let newer: [&[&[ProgramAction]]; 2] =
        [&[&[Update("x", "c")]], &[&[Merge("x"), Update("x", "c")]]];
    let scenes: Vec<_> = older
        .iter()
        .flat_map(|older| newer.map(|newer| Deployment::<Extended>::new(older, newer)))
        .collect();
    Explored::sum(
        scenes
            .iter()
            .map(|scene| scene.explore(Systematic::new(ALL.switching(2)))),
    )
    .assert_no_violation("version N + 1 adds a property while N writes");
    Explored::sum(
        scenes
            .iter()
            .map(|scene| scene.explore(Systematic::new(ONE_FAULT))),
    )
    .assert_no_violation("version N + 1 adds a property while N writes, and a fault");
}

#[test]
fn the_schema_version_is_raised() {
    let older: [&[&[ProgramAction]]; 3] = [UPDATE, MERGE, DELETE];
    let newer: &[&[ProgramAction]] = &[&[Update("x", "c")]];
    let scenes = older.map(|older| Deployment::<Raised>::new(older, newer));
    Explored::sum(scenes.map(|scene| scene.explore(Systematic::new(ALL.switching(2)))))
        .assert_no_violation("version N + 1 raises the schema version while N writes");
    Explored::sum(scenes.map(|scene| scene.explore(Systematic::new(ONE_FAULT))))
        .assert_no_violation("version N + 1 raises the schema version while N writes, and a fault");
}

#[test]
fn a_raised_schema_version_that_the_earlier_version_reads() {
    let older: [&[&[ProgramAction]]; 3] = [UPDATE, MERGE, DELETE];
    let newer: &[&[ProgramAction]] = &[&[Update("x", "c"), Merge("x")]];
    let scenes = older.map(|older| Deployment::<Readable>::new(older, newer));
    Explored::sum(scenes.map(|scene| scene.explore(Systematic::new(ALL.switching(2)))))
        .assert_no_violation("version N + 1 raises the schema version, and N reads its rows");
}

#[test]
fn a_second_entity_type_is_added() {
    let newer: &[&[ProgramAction]] = &[&[Insert("t", "a"), Update("t", "b")]];
    let scene = Deployment::<Ticket>::new(UPDATE, newer).watching(CODE);
    for (scene, suffix) in [(scene, ""), (scene.in_a_new_table(), ", in a new table")] {
        let name = format!("a second entity type is added{suffix}");
        scene
            .explore(Systematic::new(ALL.switching(2)))
            .assert_no_violation(&name);
        scene
            .explore(Systematic::new(ONE_FAULT))
            .assert_no_violation(&format!("{name}, and a fault"));
    }
    let two = Deployment::<Ticket>::new(UPDATE, &[&[Insert("t", "a")], &[Insert("u", "a")]])
        .watching(CODE);
    two.explore(Systematic::new(ALL.switching(1)))
        .assert_no_violation("two programs add a second entity type");
}

/// Random schedules with two processes of version N, and one or two of version N + 1, with faults.
fn at_random<P: Program>(name: &str, scene: Deployment<P>) {
    let moments = [0, 200, 500].map(Duration::from_millis);
    let bounds = ALL.with_faults(2, FAULT.kinds);
    let explored = moments
        .into_iter()
        .zip((1..).step_by(1000))
        .map(|(writers_start, seed)| {
            Deployment {
                writers_start,
                ..scene
            }
            .explore(Random::new(bounds, seed, 50))
        });
    Explored::sum(explored).assert_no_violation(&format!("{name}, among many processes"));
}

const MANY_WRITES: &[&[ProgramAction]] = &[
    &[
        Update("x", "b"),
        Insert("y", "a"),
        Merge("x"),
        Update("x", "a"),
    ],
    &[Delete("y"), Update("x", "c")],
];

#[test]
fn deployments_at_random() {
    at_random(
        "version N + 1 adds a property",
        Deployment::<Extended>::new(MANY_WRITES, &[&[Update("x", "c"), Merge("x")]]),
    );
    at_random(
        "version N + 1 adds an index",
        Deployment::<Indexed>::new(MANY_WRITES, BUILD_AND_UPDATE),
    );
    at_random(
        "version N + 1 adds an index twice",
        Deployment::<Indexed>::new(MANY_WRITES, BUILD_TWICE),
    );
    at_random(
        "version N + 1 changes an index",
        Deployment::<Changed>::new(MANY_WRITES, REPLACE_INDEX),
    );
    at_random(
        "version N + 1 drops an index",
        Deployment::<Freed>::new(MANY_WRITES, DROP_INDEX),
    );
    at_random(
        "version N + 1 adds a unique index",
        Deployment::<Unique>::new(MANY_WRITES, BUILD_UNIQUE),
    );
    at_random(
        "version N + 1 raises the schema version",
        Deployment::<Raised>::new(MANY_WRITES, &[&[Update("x", "c")]]),
    );
    let tickets: &[&[ProgramAction]] = &[
        &[Insert("t", "a"), Update("t", "b")],
        &[Insert("u", "a"), Update("u", "b")],
    ];
    at_random(
        "a second entity type is added",
        Deployment::<Ticket>::new(MANY_WRITES, tickets).watching(CODE),
    );
}

/// Without the wait for version N, which uses its cached index states, the suite finds a violation.
#[test]
fn deployments_wait_for_writers() {
    let scene = Deployment::<Indexed>::new(UPDATE, BUILD_INDEX)
        .without_invariant(Invariant::WaitForWriters);
    let explored = scene.explore(Systematic::new(ALL.switching(1)));
    explored.assert_violation_without(Invariant::WaitForWriters);
}
