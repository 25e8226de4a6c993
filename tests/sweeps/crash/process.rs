//! A process with the indexed table: the process that crashes, and the process that recovers.

use std::sync::Arc;
use std::time::Duration;

use table_core::model::{Entity, Key, TableName, Ticks, ValueRef};
use table_core::queue::WorkQueue;
use table_core::store::{Result, TableStore, TableStoreExt};
use table_patterns::clock::TokioClock;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Payload, Placement};
use table_patterns::journal::{Acknowledge, Clearing, SweepReport};
use table_patterns::queue::{QueueOptions, TableQueue};

/// The indexes that a process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knows {
    /// A remote unique index, a remote index, and a local unique index.
    Three,
    /// And an index that must be built.
    Late,
    /// And a unique index that must be built.
    LateUnique,
}

pub(crate) struct Process {
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) people: IndexedEntities,
    pub(crate) queue: Arc<dyn WorkQueue>,
    pub(crate) indexes: Vec<Index>,
    options: IndexOptions,
    names: Names,
}

/// The table names and the clock of one run. One store can hold the tables of several runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    number: usize,
    clock: TokioClock,
}

impl Names {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            clock: TokioClock::starting_at(Ticks::now()),
        }
    }

    pub(crate) const fn clock(self) -> TokioClock {
        self.clock
    }

    pub(crate) fn table(self, name: &str) -> TableName {
        TableName::new(format!("{name}{}", self.number)).expect("a legal name")
    }
}

impl Process {
    pub(crate) async fn create(store: &Arc<dyn TableStore>, names: Names) -> Result<()> {
        for table in ["People", "Emails", "Cities", "Late"] {
            store.create_table(&names.table(table)).await?;
        }
        Ok(())
    }

    pub(crate) async fn start(
        store: Arc<dyn TableStore>,
        names: Names,
        knows: Knows,
        acknowledge: Acknowledge,
    ) -> Result<Self> {
        let mut queue_options = QueueOptions::default();
        queue_options.clock = Arc::new(names.clock);
        let work = names.table("Work");
        let queue = Arc::new(
            TableQueue::open_with(store.clone(), work.as_str(), "journal", queue_options).await?,
        );
        let mut options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
        options.acknowledge = acknowledge;
        Self::start_on(store, queue, names, knows, options).await
    }

    /// With another queue and other options.
    pub(crate) async fn start_on(
        store: Arc<dyn TableStore>,
        queue: Arc<dyn WorkQueue>,
        names: Names,
        knows: Knows,
        mut options: IndexOptions,
    ) -> Result<Self> {
        options.queue = Some(queue.clone());
        let (table, indexes) = (names.table("People"), indexes(names, knows));
        let people =
            IndexedEntities::open(store.clone(), table, indexes.clone(), options.clone()).await?;
        Ok(Self {
            store,
            people,
            queue,
            indexes,
            options,
            names,
        })
    }

    /// Opens another table, with an index from the beginning.
    pub(crate) async fn open_another(&self) -> Result<IndexedEntities> {
        let (table, entries) = (
            self.names.table("Another"),
            self.names.table("AnotherCities"),
        );
        self.store.create_table_if_missing(&table).await?;
        self.store.create_table_if_missing(&entries).await?;
        let index = by_city("another", entries);
        IndexedEntities::open(self.store.clone(), table, vec![index], self.options.clone()).await
    }

    /// Drops the indexes that a process with fewer indexes does not know.
    pub(crate) async fn drop_unknown(&self) -> Result<()> {
        let (store, table) = (self.store.clone(), self.people.table().clone());
        let known = indexes(self.names, Knows::Three);
        let upkeep = IndexedEntities::open_for_upkeep(store, table, self.options.clone()).await?;
        for declared in upkeep.declared().await? {
            if !known.iter().any(|index| index.id() == declared.id()) {
                upkeep.drop_index(&declared.id()).await?;
            }
        }
        Ok(())
    }

    pub(crate) fn unique_tables(&self) -> [TableName; 2] {
        [self.names.table("Emails"), self.names.table("Late")]
    }

    pub(crate) fn city_table(&self) -> TableName {
        self.names.table("Cities")
    }

    pub(crate) fn tables(&self) -> [TableName; 4] {
        ["People", "Emails", "Cities", "Late"].map(|name| self.names.table(name))
    }

    pub(crate) async fn sweep(&self) -> Result<SweepReport> {
        self.people
            .journal()
            .sweep(&self.unique_tables(), Duration::ZERO)
            .await
    }

    /// Returns every entity, without entries and system rows.
    pub(crate) async fn entities(&self) -> Result<Vec<Entity>> {
        let rows = self
            .store
            .query_all(self.people.table(), &Default::default())
            .await?;
        Ok(rows
            .into_iter()
            .filter(|row| !row.key().is_system() && text(row, "IndexName").is_none())
            .collect())
    }
}

pub(crate) fn text<'a>(entity: &'a Entity, name: &str) -> Option<&'a str> {
    match entity.get(name) {
        Some(ValueRef::String(text)) => Some(text),
        _ => None,
    }
}

pub(crate) fn person(id: &str, name: &str, city: &str) -> Result<Entity> {
    Ok(Entity::new("p", id)?.with("Name", name).with("City", city))
}

fn indexes(names: Names, knows: Knows) -> Vec<Index> {
    let email = Index::new(
        "email",
        Placement::OtherTable(names.table("Emails")),
        "1",
        |e| {
            text(e, "Name")
                .map(|name| Key::new(format!("{name}@x"), ""))
                .transpose()
        },
    );
    let nick = Index::new("nick", Placement::SamePartition, "1", |e| {
        text(e, "Name")
            .map(|name| Key::new(e.key().partition(), format!("nick_{name}")))
            .transpose()
    });
    let mut indexes = vec![
        email.unique_within_table(),
        by_city("city", names.table("Cities")).with_payload(Payload::Full),
        nick.unique_within_partition(),
    ];
    match knows {
        Knows::Three => {}
        Knows::Late => indexes.push(by_city("late", names.table("Late"))),
        Knows::LateUnique => {
            indexes.push(by_name("late", names.table("Late")).unique_within_table());
        }
    }
    indexes
}

fn by_city(name: &str, table: TableName) -> Index {
    Index::new(name, Placement::OtherTable(table), "1", |e| {
        text(e, "City")
            .map(|city| Key::new(city, e.key().row()))
            .transpose()
    })
}

fn by_name(name: &str, table: TableName) -> Index {
    Index::new(name, Placement::OtherTable(table), "1", |e| {
        text(e, "Name").map(|name| Key::new(name, "")).transpose()
    })
}
