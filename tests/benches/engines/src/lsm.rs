use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::CACHE_BYTES;
use crate::direct::key;
use crate::flight::Flight;
use crate::sides::Side;

/// fjall, a log-structured merge tree, with postcard into the same struct.
pub(crate) struct Lsm {
    database: Database,
    flights: Keyspace,
}

impl Lsm {
    pub(crate) fn create(path: &Path) -> Self {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES as u64)
            .open()
            .unwrap();
        let flights = database
            .keyspace("flights", KeyspaceCreateOptions::default)
            .unwrap();
        Self { database, flights }
    }
}

impl Side for Lsm {
    fn name(&self) -> &'static str {
        "fjall, postcard"
    }

    fn get_all(&self, flights: &[Flight]) {
        for flight in flights {
            let value = self.flights.get(key(flight)).unwrap().unwrap();
            std::hint::black_box(postcard::from_bytes::<Flight>(&value).unwrap());
        }
    }

    fn scan(&self, carrier: &str) -> Vec<Flight> {
        let end = [carrier.as_bytes(), &[1]].concat();
        let rows = self.flights.range(carrier.as_bytes()..end.as_slice());
        rows.map(|row| postcard::from_bytes(&row.value().unwrap()).unwrap())
            .collect()
    }

    fn group(&self, flights: &[Flight]) {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for flight in flights {
            batch.insert(
                &self.flights,
                key(flight),
                postcard::to_stdvec(flight).unwrap(),
            );
        }
        batch.commit().unwrap();
    }

    fn insert(&self, flight: &Flight) {
        self.flights
            .insert(key(flight), postcard::to_stdvec(flight).unwrap())
            .unwrap();
        self.database.persist(PersistMode::SyncAll).unwrap();
    }
}
