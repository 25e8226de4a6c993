use std::path::Path;
use std::sync::Mutex;

use rusqlite::{Connection, params};
use serde_rusqlite::{columns_from_statement, from_row_with_columns, to_params_named};

use crate::CACHE_BYTES;
use crate::flight::Flight;
use crate::sides::Side;

/// SQLite as a program uses it: one connection, prepared statements, the struct mapped by serde. The rows are in the tree
/// of the primary key.
pub(crate) struct Sqlite(Mutex<Connection>);

const COLUMNS: [&str; 19] = [
    "carrier",
    "year",
    "month",
    "day",
    "flight",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
    "hour",
    "minute",
    "time_hour",
];

impl Sqlite {
    pub(crate) fn create(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection
            .pragma_update(None, "journal_mode", "WAL")
            .unwrap();
        connection
            .pragma_update(None, "synchronous", "FULL")
            .unwrap();
        connection
            .pragma_update(None, "cache_size", -(CACHE_BYTES as i64 / 1024))
            .unwrap();
        let table = "CREATE TABLE flights (
            carrier TEXT NOT NULL, year INTEGER NOT NULL, month INTEGER NOT NULL, day INTEGER NOT NULL,
            flight INTEGER NOT NULL, dep_time INTEGER, sched_dep_time INTEGER NOT NULL, dep_delay INTEGER,
            arr_time INTEGER, sched_arr_time INTEGER NOT NULL, arr_delay INTEGER, tailnum TEXT,
            origin TEXT NOT NULL, dest TEXT NOT NULL, air_time REAL, distance REAL NOT NULL,
            hour INTEGER NOT NULL, minute INTEGER NOT NULL, time_hour INTEGER NOT NULL,
            PRIMARY KEY (carrier, year, month, day, flight)) WITHOUT ROWID";
        connection.execute_batch(table).unwrap();
        Self(Mutex::new(connection))
    }
}

fn insert(connection: &Connection, flight: &Flight) {
    let names = COLUMNS.map(|column| format!(":{column}")).join(", ");
    let sql = format!(
        "INSERT INTO flights ({}) VALUES ({names})",
        COLUMNS.join(", ")
    );
    let mut statement = connection.prepare_cached(&sql).unwrap();
    statement
        .execute(to_params_named(flight).unwrap().to_slice().as_slice())
        .unwrap();
}

impl Side for Sqlite {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn get_all(&self, flights: &[Flight]) {
        let connection = self.0.lock().unwrap();
        let sql = "SELECT * FROM flights WHERE carrier = ? AND year = ? AND month = ? AND day = ? AND flight = ?";
        for flight in flights {
            let mut statement = connection.prepare_cached(sql).unwrap();
            let columns = columns_from_statement(&statement);
            let key = params![
                flight.carrier,
                flight.year,
                flight.month,
                flight.day,
                flight.flight
            ];
            let read = |row: &rusqlite::Row<'_>| {
                Ok(from_row_with_columns::<Flight>(row, &columns).unwrap())
            };
            std::hint::black_box(statement.query_row(key, read).unwrap());
        }
    }

    fn scan(&self, carrier: &str) -> Vec<Flight> {
        let connection = self.0.lock().unwrap();
        let sql = "SELECT * FROM flights WHERE carrier = ? ORDER BY year, month, day, flight";
        let mut statement = connection.prepare_cached(sql).unwrap();
        let columns = columns_from_statement(&statement);
        let rows = statement.query_map([carrier], |row| {
            Ok(from_row_with_columns::<Flight>(row, &columns).unwrap())
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    fn group(&self, flights: &[Flight]) {
        let mut connection = self.0.lock().unwrap();
        let transaction = connection.transaction().unwrap();
        flights
            .iter()
            .for_each(|flight| insert(&transaction, flight));
        transaction.commit().unwrap();
    }

    fn insert(&self, flight: &Flight) {
        insert(&self.0.lock().unwrap(), flight);
    }
}
