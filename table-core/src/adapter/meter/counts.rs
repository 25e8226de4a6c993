use std::collections::BTreeMap;
use std::fmt;
use std::ops::{AddAssign, Sub};

use crate::model::TableName;
use crate::query::AccessPath;
use crate::store::OperationKind;

/// The category by which a request is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Request {
    /// The table; `None` for a listing of tables.
    pub table: Option<TableName>,
    /// The operation; a group transaction is one request.
    pub kind: OperationKind,
    /// The access path of a read; a get is a point query. `None` for writes, which address entities by key.
    pub path: Option<AccessPath>,
}

/// The counts of one category of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Count {
    /// Number of requests begun, including failed and cancelled ones.
    pub requests: u64,
    /// Number of requests that returned an error.
    pub failed: u64,
    /// Number of entities returned or written, or of names in a listing of tables.
    pub entities: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.failed += more.failed;
        self.entities += more.entities;
    }
}

impl Count {
    /// Returns the difference, or zero if the meter was reset in between.
    const fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            failed: self.failed.saturating_sub(earlier.failed),
            entities: self.entities.saturating_sub(earlier.entities),
        }
    }
}

/// The counts of a [`RequestMeter`](super::RequestMeter) at one time, or between two times.
///
/// Prints as a table. Subtract an earlier snapshot to get the cost of a block of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    counts: BTreeMap<Request, Count>,
    round_trips: u64,
}

impl RequestCounts {
    pub(super) fn add(&mut self, request: Request, count: Count) {
        *self.counts.entry(request).or_default() += count;
    }

    pub(super) const fn set_round_trips(&mut self, round_trips: u64) {
        self.round_trips = round_trips;
    }

    /// Iterates over every category with its counts, by table, operation and access path.
    pub fn iter(&self) -> impl Iterator<Item = (&Request, &Count)> {
        self.counts.iter()
    }

    /// Returns the number of round trips: the length of the longest chain of requests of which each began after the end of the
    /// one before. Requests that are under way at the same time are one round trip.
    ///
    /// If a piece of work is measured alone and all of its requests take the same time, this is the number of answers that the
    /// work waited for one after the other. If the requests take different times, it is at least that number.
    pub const fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        self.sum(|_| true).requests
    }

    /// Returns the number of requests of one kind.
    pub fn of_kind(&self, kind: OperationKind) -> u64 {
        self.sum(|request| request.kind == kind).requests
    }

    /// Returns the number of requests to one table, compared without case.
    pub fn of_table(&self, table: &TableName) -> u64 {
        let named = |name: &TableName| name.as_str().eq_ignore_ascii_case(table.as_str());
        self.sum(|request| request.table.as_ref().is_some_and(named)).requests
    }

    /// Returns the number of reads by one access path.
    pub fn of_path(&self, path: AccessPath) -> u64 {
        self.sum(|request| request.path == Some(path)).requests
    }

    /// Returns the sum over the categories for which `keep` returns true.
    pub fn sum(&self, mut keep: impl FnMut(&Request) -> bool) -> Count {
        let mut sum = Count::default();
        self.counts.iter().filter(|(request, _)| keep(request)).for_each(|(_, count)| sum += *count);
        sum
    }

    /// Returns the most expensive access path of the reads; `None` if nothing was read.
    pub fn costliest_path(&self) -> Option<AccessPath> {
        self.counts.keys().filter_map(|request| request.path).max()
    }
}

/// As `{"round_trips", "requests"}`, with a list of categories and their counts.
impl serde::Serialize for RequestCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            request: &'a Request,
            #[serde(flatten)]
            count: &'a Count,
        }
        #[derive(serde::Serialize)]
        struct Form<'a> {
            round_trips: u64,
            requests: Vec<Row<'a>>,
        }
        let requests = self.counts.iter().map(|(request, count)| Row { request, count }).collect();
        serde::Serialize::serialize(&Form { round_trips: self.round_trips, requests }, serializer)
    }
}

/// Returns the counts since the earlier snapshot. Categories without a new request are omitted.
impl Sub<&Self> for RequestCounts {
    type Output = Self;

    fn sub(self, earlier: &Self) -> Self {
        let before = |request: &Request| earlier.counts.get(request).copied().unwrap_or_default();
        let difference = self.counts.into_iter().map(|(request, count)| {
            let count = count.since(before(&request));
            (request, count)
        });
        let counts = difference.filter(|(_, count)| *count != Count::default()).collect();
        // Zero if the meter was reset in between.
        Self { counts, round_trips: self.round_trips.saturating_sub(earlier.round_trips) }
    }
}

const HEADER: [&str; 6] = ["table", "operation", "access path", "requests", "failed", "entities"];

/// Prints a table with a line per category.
impl fmt::Display for RequestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![HEADER.map(str::to_owned)];
        rows.extend(self.counts.iter().map(|(request, count)| cells(request, *count)));
        let widths: [usize; 6] =
            std::array::from_fn(|i| rows.iter().map(|row| row[i].len()).max().unwrap_or_default());
        for [table, kind, path, requests, failed, entities] in &rows {
            let [w0, w1, w2, w3, w4, w5] = widths;
            write!(f, "{table:w0$}  {kind:w1$}  {path:w2$}  ")?;
            writeln!(f, "{requests:>w3$}  {failed:>w4$}  {entities:>w5$}")?;
        }
        Ok(())
    }
}

fn cells(request: &Request, count: Count) -> [String; 6] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        or_dash(request.table.as_ref().map(ToString::to_string)),
        request.kind.to_string(),
        or_dash(request.path.map(|path| path.to_string())),
        count.requests.to_string(),
        count.failed.to_string(),
        count.entities.to_string(),
    ]
}
