//! Entities with one index, the work of the process that crashes, and the checks after recovery.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_core::model::{Entity, IfMatch, Key, SYSTEM_PREFIX, TableName, ValueRef};
use table_core::query::{Filter, Query};
use table_core::store::{BulkSummary, Operation, Result, TableStore, TableStoreExt};
use table_patterns::index::{
    BulkInsert, Index, IndexOptions, IndexState, IndexedEntities, Overflow, Placement, ScrubMode,
    Shape,
};
use table_patterns::journal::{Change, Clearing};

use crate::crashing_blobs::CrashingBlobs;

/// The form of the index under test.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) shape: Shape,
    pub(crate) here: bool,
}

/// The work during which the process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Insert,
    Move,
    Delete,
    Group,
    InsertAll,
    Shrink,
    Build,
    Drop,
    Scrub,
    Sweep,
}

pub(crate) const PATHS: [Path; 10] = [
    Path::Insert,
    Path::Move,
    Path::Delete,
    Path::Group,
    Path::InsertAll,
    Path::Shrink,
    Path::Build,
    Path::Drop,
    Path::Scrub,
    Path::Sweep,
];

pub(crate) fn forms() -> Vec<Form> {
    let small = |overflow| Shape::List {
        bytes: 256,
        overflow,
    };
    let lists = [
        Shape::LIST,
        small(Overflow::Entities),
        small(Overflow::Blob),
        Shape::Blob,
    ];
    let copy = Shape::copy("Boss", ["City"]);
    let mut all: Vec<_> = lists
        .into_iter()
        .chain([copy])
        .flat_map(|s| {
            [true, false].map(|here| Form {
                shape: s.clone(),
                here,
            })
        })
        .collect();
    all.push(Form {
        shape: Shape::summary(["Age"]),
        here: true,
    });
    all
}

/// Enough people for a small list to overflow.
const MANY: usize = 30;

pub(crate) struct World<'a> {
    form: &'a Form,
    number: usize,
    store: Arc<dyn TableStore>,
    blobs: Arc<InMemory>,
    options: IndexOptions,
}

fn person(id: usize, city: &str) -> Result<Entity> {
    Ok(Entity::new("p", format!("person_{id:03}"))?
        .with("City", city)
        .with("Age", 40))
}

fn key(id: usize) -> Result<Key> {
    Key::new("p", format!("person_{id:03}"))
}

impl<'a> World<'a> {
    /// Creates a table with the index, and inserts people.
    pub(crate) async fn new(
        store: Arc<dyn TableStore>,
        form: &'a Form,
        number: usize,
    ) -> Result<Self> {
        let world = Self {
            form,
            number,
            store,
            blobs: Arc::default(),
            options: IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
        };
        world.store.create_table(&world.table()).await?;
        Ok(world)
    }

    fn table(&self) -> TableName {
        TableName::new(format!("People{}", self.number)).expect("a legal name")
    }

    /// One list, summary or copy per city. A copy has one source per city.
    fn index(&self) -> Result<Index> {
        let placement = if self.form.here {
            Placement::SamePartition
        } else {
            Placement::OtherPartition
        };
        let partition = if self.form.here { "" } else { "cities" };
        let row = if self.is_copy() {
            "copy_{City}_{RowKey}"
        } else {
            "city_{City}"
        };
        Ok(Index::keyed("city", placement, partition, row)?.with_shape(self.form.shape.clone()))
    }

    fn is_copy(&self) -> bool {
        matches!(self.form.shape, Shape::Copy { .. })
    }

    async fn open(&self, faults: &FaultInjector, indexed: bool) -> Result<IndexedEntities> {
        let mut options = self.options.clone();
        options.blobs = Some(Arc::new(CrashingBlobs {
            blobs: self.blobs.clone(),
            faults: faults.clone(),
        }));
        let store: Arc<dyn TableStore> = Arc::new(Faulty::new(self.store.clone(), faults.clone()));
        let indexes = if indexed {
            vec![self.index()?]
        } else {
            Vec::new()
        };
        IndexedEntities::open(store, self.table(), indexes, options).await
    }

    /// Returns whether the path reached the crash.
    pub(crate) async fn crash(self, path: Path, request: u64, point: CrashPoint) -> Result<bool> {
        let case = format!(
            "{:?}: {path:?}, dead at request {request}, {point:?}",
            self.form
        );
        let healthy = FaultInjector::new(0);
        let first = self.open(&healthy, path != Path::Build).await?;
        self.fill(&first).await?;
        if path == Path::Scrub {
            self.damage(&first).await?;
        }
        let faults = FaultInjector::new(0);
        let crashing = self.open(&faults, true).await?;
        if path == Path::Sweep {
            faults.crash_at(1, CrashPoint::After);
            drop(crashing.write(&[Change::insert(person(90, "oslo")?)]).await);
            faults.heal();
        }
        faults.crash_at(request, point);
        let answer = act(&crashing, path).await;
        let crashed = faults.is_crashed();
        assert!(crashed || answer.is_ok(), "{case}: {answer:?}");

        let second = self.open(&healthy, true).await?;
        if matches!(path, Path::Build | Path::Drop | Path::Scrub) {
            act(&second, path).await?;
        }
        second.journal().sweep(&[], Duration::ZERO).await?;
        second.collect_blobs("city").await?;
        self.assert_in_step(&second, path, &case).await?;
        Ok(crashed)
    }

    async fn fill(&self, people: &IndexedEntities) -> Result<()> {
        let mut group = Vec::new();
        for id in 0..MANY {
            group.push(Change::insert(person(
                id,
                if id % 10 == 9 { "rome" } else { "oslo" },
            )?));
        }
        if self.is_copy() {
            let targets = (0..100).flat_map(|id| ["oslo", "rome"].map(|city| (id, city)));
            let partition = if self.form.here { "p" } else { "cities" };
            let targets = targets
                .map(|(id, city)| Entity::new(partition, format!("copy_{city}_person_{id:03}")));
            let targets: Vec<_> = targets
                .map(|e| e.map(Change::insert))
                .collect::<Result<_>>()?;
            for targets in targets.chunks(100) {
                people.write(targets).await?;
            }
        }
        people.write(&group).await.map(drop)
    }

    /// Changes entities directly, without their index.
    async fn damage(&self, people: &IndexedEntities) -> Result<()> {
        let table = people.table();
        self.store
            .write(table, Operation::InsertOrReplace(person(0, "rome")?))
            .await?;
        self.store
            .write(table, Operation::Delete(key(1)?, IfMatch::Any))
            .await
            .map(drop)
    }

    async fn assert_in_step(&self, people: &IndexedEntities, path: Path, case: &str) -> Result<()> {
        let rows = self.store.query_all(&self.table(), &Query::new()).await?;
        let journal = format!("{SYSTEM_PREFIX}j_");
        let left = rows
            .iter()
            .find(|row| row.key().row().starts_with(&journal));
        assert!(left.is_none(), "{case}: {left:?} is left");
        let blobs = self
            .blobs
            .list(None)
            .try_collect::<Vec<_>>()
            .await
            .expect("blobs in memory")
            .len();
        if path == Path::Drop {
            assert_eq!(people.state("city"), IndexState::Absent, "{case}");
            let left = rows
                .iter()
                .find(|row| row.get("IndexName").is_some() || row.get("BossCity").is_some());
            assert!(left.is_none(), "{case}: {left:?}, {blobs} blobs");
            assert_eq!(blobs, 0, "{case}: {left:?}, {blobs} blobs");
            return Ok(());
        }
        let scrub = people.scrub("city", ScrubMode::Report).await?;
        assert_eq!(scrub.dangling, 0, "{case}");
        assert_eq!(scrub.missing, 0, "{case}");
        assert_eq!(scrub.taken_keys, 0, "{case}");
        let named = rows
            .iter()
            .filter(|row| row.get("ListBlob").is_some())
            .count();
        assert_eq!(
            blobs, named,
            "{case}: blobs that no row names, or rows without their blob"
        );
        let people_of = rows
            .iter()
            .filter(|row| row.key().row().starts_with("person_"));
        let mut by_city: BTreeMap<&str, Vec<Key>> = BTreeMap::new();
        for row in people_of {
            if let Some(ValueRef::String(city)) = row.get("City") {
                by_city.entry(city).or_default().push(row.key().clone());
            }
        }
        for city in ["oslo", "rome"] {
            let wanted = by_city.remove(city).unwrap_or_default();
            self.assert_city(people, city, &wanted, case).await?;
        }
        Ok(())
    }

    async fn assert_city(
        &self,
        people: &IndexedEntities,
        city: &str,
        wanted: &[Key],
        case: &str,
    ) -> Result<()> {
        let at = Key::new(
            if self.form.here { "p" } else { "cities" },
            format!("city_{city}"),
        )?;
        if self.form.shape.is_list() {
            assert_eq!(people.references("city", &at).await?, wanted, "{case}");
        } else if self.is_copy() {
            let copied = format!("copy_{city}_");
            let filter = Filter::eq("BossCity", city);
            let rows = self
                .store
                .query_all(&self.table(), &Query::new().with_filter(filter))
                .await?;
            let found: Vec<_> = rows
                .iter()
                .filter_map(|r| r.key().row().strip_prefix(&copied))
                .collect();
            assert_eq!(
                found,
                wanted.iter().map(Key::row).collect::<Vec<_>>(),
                "{case}"
            );
        } else {
            let summary = people.summary("city", &at).await?;
            let age = summary.sums.get("Age").copied().unwrap_or_default();
            assert_eq!(summary.count, wanted.len() as i64, "{case}");
            assert_eq!(age, 40 * wanted.len() as i64, "{case}");
        }
        Ok(())
    }
}

async fn act(people: &IndexedEntities, path: Path) -> Result<()> {
    match path {
        Path::Insert => people.insert(person(91, "oslo")?).await.map(drop),
        Path::Move => people.upsert(person(2, "rome")?).await.map(drop),
        Path::Delete => people.modify(&key(2)?, |_| Ok(None)).await.map(drop),
        Path::Group => {
            let changes =
                (40..46).map(|id| person(id, ["oslo", "rome"][id % 2]).map(Change::insert));
            people
                .write(&changes.collect::<Result<Vec<_>>>()?)
                .await
                .map(drop)
        }
        Path::InsertAll => {
            let new = (40..52).map(|id| person(id, ["oslo", "rome"][id % 2]));
            let options = BulkInsert::default().with_window(4).with_concurrency(1);
            let outcomes = people.insert_all(stream::iter(new), options);
            BulkSummary::of(outcomes).await?.into_result().map(drop)
        }
        Path::Shrink => {
            let mut changes = Vec::new();
            for id in 3..MANY {
                changes.push(Change::delete(
                    people.get_existing(&key(id)?).await?.into_inner(),
                ));
            }
            people.write(&changes).await.map(drop)
        }
        Path::Build => people.build("city")?.run().await.map(drop),
        Path::Drop => people.drop_index("city").await,
        Path::Scrub => people.scrub("city", ScrubMode::Repair).await.map(drop),
        Path::Sweep => people.journal().sweep(&[], Duration::ZERO).await.map(drop),
    }
}
