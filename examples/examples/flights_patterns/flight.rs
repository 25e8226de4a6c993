//! The flights as in the CSV files. The result of every pattern is compared with them.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{NaiveDate, NaiveDateTime};
use examples::data::DataSet;

use crate::Result;

/// A flight.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) carrier: String,
    pub(crate) date: NaiveDate,
    /// Local time.
    pub(crate) scheduled: NaiveDateTime,
    pub(crate) number: u32,
    pub(crate) origin: String,
    pub(crate) tail_number: Option<String>,
    pub(crate) distance: i32,
}

/// A data set in memory.
#[derive(Debug)]
pub(crate) struct Flights {
    pub(crate) all: Vec<Flight>,
    /// The manufacturers of known planes by tail number.
    pub(crate) planes: BTreeMap<String, String>,
}

impl Flights {
    pub(crate) fn read(directory: &Path) -> Result<Self> {
        let data = DataSet::read(directory)?;
        let (mut all, mut planes) = (
            Vec::with_capacity(data.flights.row_count()),
            BTreeMap::new(),
        );
        for row in data.flights.rows()? {
            let row = row?;
            all.push(Flight {
                carrier: row.required("carrier")?,
                date: row.date()?,
                scheduled: row.time()?,
                number: row.required("flight")?,
                origin: row.required("origin")?,
                tail_number: row.optional("tailnum")?,
                distance: row.required("distance")?,
            });
        }
        for row in data.planes.rows()? {
            let row = row?;
            planes.insert(row.required("tailnum")?, row.required("manufacturer")?);
        }
        Ok(Self { all, planes })
    }

    /// Returns the number of flights per key. Flights without a key are left out.
    pub(crate) fn count_by<K: Ord>(
        &self,
        key: impl Fn(&Flight) -> Option<K>,
    ) -> BTreeMap<K, usize> {
        let mut counts = BTreeMap::new();
        self.all
            .iter()
            .filter_map(key)
            .for_each(|key| *counts.entry(key).or_default() += 1);
        counts
    }
}
