//! A table of people with a blob store, for tests.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{Result, TableStore, TableStoreExt};

use crate::index::{Index, IndexOptions, IndexedEntities, Overflow, Placement, Shape};
use crate::journal::Clearing;

pub(super) struct World {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) blobs: Arc<InMemory>,
    pub(super) meter: RequestMeter,
}

impl World {
    pub(super) async fn new() -> Result<Self> {
        let meter = RequestMeter::new();
        let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
        for table in ["People", "ByCity"] {
            store.create_table(&TableName::new(table)?).await?;
        }
        Ok(Self {
            store,
            blobs: Arc::default(),
            meter,
        })
    }

    pub(super) async fn open(&self, indexes: Vec<Index>) -> Result<IndexedEntities> {
        let mut options = IndexOptions::local();
        options.blobs = Some(self.blobs.clone());
        // Tests count all requests of a write, and look at the rows after it.
        options.clearing = Clearing::BeforeAnswer;
        IndexedEntities::open(
            self.store.clone(),
            TableName::new("People")?,
            indexes,
            options,
        )
        .await
    }

    pub(super) async fn blobs(&self) -> usize {
        self.blobs
            .list(None)
            .try_collect::<Vec<_>>()
            .await
            .unwrap()
            .len()
    }

    pub(super) async fn cost<T>(&self, work: impl Future<Output = Result<T>>) -> Result<u64> {
        let before = self.meter.total();
        work.await?;
        Ok(self.meter.total() - before)
    }
}

pub(super) fn small(overflow: Overflow) -> Shape {
    Shape::List {
        bytes: 256,
        overflow,
    }
}

pub(super) fn text<'a>(e: &'a Entity, name: &str) -> Option<&'a str> {
    match e.get(name) {
        Some(ValueRef::String(text)) => Some(text),
        _ => None,
    }
}

pub(super) fn by_city(placement: Placement, shape: Shape) -> Index {
    let here = placement == Placement::SamePartition;
    let index = Index::new("city", placement, "1", move |e| {
        let of = |city: &str| {
            if here {
                e.key().partition().to_owned()
            } else {
                format!("city_{city}")
            }
        };
        text(e, "City")
            .map(|city| Key::new(of(city), format!("city_{city}")))
            .transpose()
    });
    index.with_shape(shape)
}

pub(super) fn placements() -> [Placement; 3] {
    let other = TableName::new("ByCity").unwrap();
    [
        Placement::SamePartition,
        Placement::OtherPartition,
        Placement::OtherTable(other),
    ]
}

pub(super) fn list_of(index: &Index, city: &str) -> Key {
    let here = *index.placement() == Placement::SamePartition;
    Key::new(
        if here {
            "p".to_owned()
        } else {
            format!("city_{city}")
        },
        format!("city_{city}"),
    )
    .unwrap()
}

pub(super) fn person(id: usize, city: &str) -> Result<Entity> {
    Ok(Entity::new("p", format!("{id:05}"))?
        .with("City", city)
        .with("Age", 40))
}

pub(super) async fn rows_left(world: &World, table: &str) -> Result<usize> {
    let rows = world
        .store
        .query_all(&TableName::new(table)?, &Query::new())
        .await?;
    Ok(rows
        .iter()
        .filter(|row| row.key().partition() != "~~manifest")
        .count())
}
