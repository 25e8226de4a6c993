use std::path::Path;
use table_patterns::Database;

use table_core::model::{Key, PartitionKey, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{GroupTransaction, Operation, TableStore};
use table_core::typed::{FromEntity, TableEntity};
use table_embedded::{EmbeddedStore, Reads};

use crate::CACHE_BYTES;
use crate::flight::{Flight, flight};

/// The embedded store with the derived struct.
#[derive(Clone)]
pub(crate) struct Ours {
    store: EmbeddedStore,
    table: TableName,
}

impl Ours {
    pub(crate) async fn create(directory: &Path) -> Self {
        let builder = EmbeddedStore::builder(directory.join("ours")).cache_bytes(CACHE_BYTES);
        let store = builder.open().await.unwrap();
        let table = TableName::new("Flights").unwrap();
        store.create_table(&table).await.unwrap();
        Self { store, table }
    }

    pub(crate) const fn store(&self) -> &EmbeddedStore {
        &self.store
    }

    /// A copy of the store, opened with [`Reads::Blocking`].
    pub(crate) async fn with_blocking_reads(&self) -> Self {
        let copy = self.store.path().with_extension("copy");
        self.store.backup(&copy).await.unwrap();
        let builder = EmbeddedStore::builder(copy).cache_bytes(CACHE_BYTES);
        let store = builder.reads(Reads::Blocking).open().await.unwrap();
        Self {
            store,
            table: self.table.clone(),
        }
    }

    pub(crate) async fn load(&self, carrier: &str, rows: u32) {
        let all: Vec<_> = (0..rows).map(|n| flight(carrier, n)).collect();
        for chunk in all.chunks(100) {
            self.insert_group(chunk).await;
        }
    }

    pub(crate) async fn insert_group(&self, flights: &[Flight]) {
        let partition = PartitionKey::new(flights[0].carrier.as_str()).unwrap();
        let mut group = GroupTransaction::new(partition, self.store.profile());
        flights.iter().for_each(|f| {
            group
                .push(Operation::Insert(f.to_entity().unwrap()))
                .unwrap();
        });
        self.store.transact(&self.table, group).await.unwrap();
    }

    pub(crate) async fn insert(&self, flight: &Flight) {
        self.store
            .write(&self.table, Operation::Insert(flight.to_entity().unwrap()))
            .await
            .unwrap();
    }

    pub(crate) async fn get(&self, key: &Key) -> Flight {
        let entity = self
            .store
            .get(&self.table, key, None)
            .await
            .unwrap()
            .unwrap();
        Flight::from_entity(entity).unwrap()
    }

    /// Reads a partition as a program does.
    pub(crate) async fn scan(&self, carrier: &str) -> Vec<Flight> {
        let flights = Database::new(self.store.clone())
            .table::<Flight>(self.table.clone())
            .unwrap();
        flights
            .query()
            .partition(Flight::partition(carrier).unwrap())
            .all()
            .await
            .unwrap()
    }

    /// Reads a partition page by page.
    pub(crate) async fn scan_pages(&self, carrier: &str) -> Vec<Flight> {
        let query = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, carrier));
        let (mut flights, mut from) = (Vec::new(), None);
        loop {
            let page = self
                .store
                .query(&self.table, &query, from.as_ref())
                .await
                .unwrap()
                .into_page()
                .unwrap();
            flights.extend(
                page.items
                    .into_iter()
                    .map(|entity| Flight::from_entity(entity).unwrap()),
            );
            from = page.continuation;
            if from.is_none() {
                return flights;
            }
        }
    }
}
