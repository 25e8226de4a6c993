use std::path::Path;

use redb::{Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};
use table_core::typed::TableEntity;

use crate::CACHE_BYTES;
use crate::flight::{Flight, flight};

const FLIGHTS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("flights");

/// redb used directly, with postcard into the same struct: a program without this library.
pub(crate) struct Direct {
    database: Database,
}

impl Direct {
    pub(crate) fn create(directory: &Path) -> Self {
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create(directory.join("direct.redb"))
            .unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(FLIGHTS).unwrap();
        transaction.commit().unwrap();
        Self { database }
    }

    /// Writes `rows` flights of a carrier, 100 per durable transaction.
    pub(crate) fn load(&self, carrier: &str, rows: u32) {
        let all: Vec<_> = (0..rows).map(|n| flight(carrier, n)).collect();
        all.chunks(100).for_each(|chunk| self.insert(chunk));
    }

    pub(crate) fn insert(&self, flights: &[Flight]) {
        self.commit(
            flights
                .iter()
                .map(|flight| (key(flight), postcard::to_stdvec(flight).unwrap())),
        );
    }

    /// Writes rows in one durable transaction.
    pub(crate) fn commit<B: AsRef<[u8]>>(&self, rows: impl Iterator<Item = (B, B)>) {
        let transaction = self.database.begin_write().unwrap();
        {
            let mut table = transaction.open_table(FLIGHTS).unwrap();
            for (key, value) in rows {
                table.insert(key.as_ref(), value.as_ref()).unwrap();
            }
        }
        transaction.commit().unwrap();
    }

    /// Returns a table that reads many flights in one transaction.
    pub(crate) fn table(&self) -> ReadOnlyTable<&'static [u8], &'static [u8]> {
        self.database
            .begin_read()
            .unwrap()
            .open_table(FLIGHTS)
            .unwrap()
    }

    /// Reads a flight in its own transaction.
    pub(crate) fn get(&self, key: &[u8]) -> Flight {
        get(&self.table(), key)
    }

    pub(crate) fn scan(&self, carrier: &str) -> Vec<Flight> {
        let end = [carrier.as_bytes(), &[1]].concat();
        let table = self.table();
        let rows =
            ReadableTable::range::<&[u8]>(&table, carrier.as_bytes()..end.as_slice()).unwrap();
        rows.map(|row| postcard::from_bytes(row.unwrap().1.value()).unwrap())
            .collect()
    }
}

pub(crate) fn get(table: &ReadOnlyTable<&'static [u8], &'static [u8]>, key: &[u8]) -> Flight {
    postcard::from_bytes(table.get(key).unwrap().unwrap().value()).unwrap()
}

/// The key of the library without the id of the table.
pub(crate) fn key(flight: &Flight) -> Vec<u8> {
    flight.entity_key().unwrap().key().to_sortable()
}
