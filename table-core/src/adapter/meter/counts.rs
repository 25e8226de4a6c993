use std::collections::BTreeMap;
use std::fmt;
use std::ops::{AddAssign, Sub};

use crate::model::TableName;
use crate::query::AccessPath;
use crate::store::OperationKind;

/// What requests are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The table; `None` for a listing of tables.
    pub table: Option<TableName>,
    /// The operation; a group transaction is one request.
    pub kind: OperationKind,
    /// How a read finds its entities: a get is a point query. Writes name theirs: `None`.
    pub path: Option<AccessPath>,
}

/// How many requests of one sort there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Requests begun, failed and cancelled ones included.
    pub requests: u64,
    /// Requests that answered an error.
    pub failed: u64,
    /// Entities returned or written; names, for a listing of tables.
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
    /// The difference, zero where a reset came between.
    const fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            failed: self.failed.saturating_sub(earlier.failed),
            entities: self.entities.saturating_sub(earlier.entities),
        }
    }
}

/// The counts of a [`RequestMeter`](super::RequestMeter) at some moment, or between two.
///
/// Prints as a table. Subtract an earlier snapshot to see what a block of work cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts(BTreeMap<Request, Count>);

impl RequestCounts {
    pub(super) fn add(&mut self, request: Request, count: Count) {
        *self.0.entry(request).or_default() += count;
    }

    /// Every sort of request with its count, by table, operation and access path.
    pub fn iter(&self) -> impl Iterator<Item = (&Request, &Count)> {
        self.0.iter()
    }

    /// All requests.
    pub fn total(&self) -> u64 {
        self.sum(|_| true).requests
    }

    /// Requests of one kind.
    pub fn of_kind(&self, kind: OperationKind) -> u64 {
        self.sum(|request| request.kind == kind).requests
    }

    /// Requests to one table, compared without case.
    pub fn of_table(&self, table: &TableName) -> u64 {
        let named = |name: &TableName| name.as_str().eq_ignore_ascii_case(table.as_str());
        self.sum(|request| request.table.as_ref().is_some_and(named)).requests
    }

    /// Reads by one access path.
    pub fn of_path(&self, path: AccessPath) -> u64 {
        self.sum(|request| request.path == Some(path)).requests
    }

    /// The sum over the sorts of requests for which `keep` answers true.
    pub fn sum(&self, mut keep: impl FnMut(&Request) -> bool) -> Count {
        let mut sum = Count::default();
        self.0.iter().filter(|(request, _)| keep(request)).for_each(|(_, count)| sum += *count);
        sum
    }

    /// The costliest access path of the reads; `None` if nothing was read.
    pub fn costliest_path(&self) -> Option<AccessPath> {
        self.0.keys().filter_map(|request| request.path).max()
    }
}

/// What came after the earlier snapshot. Sorts without a new request are left out.
impl Sub<&Self> for RequestCounts {
    type Output = Self;

    fn sub(self, earlier: &Self) -> Self {
        let before = |request: &Request| earlier.0.get(request).copied().unwrap_or_default();
        let difference = self.0.into_iter().map(|(request, count)| {
            let count = count.since(before(&request));
            (request, count)
        });
        Self(difference.filter(|(_, count)| *count != Count::default()).collect())
    }
}

const HEADER: [&str; 6] = ["table", "operation", "access path", "requests", "failed", "entities"];

/// A table with a line for each sort of request.
impl fmt::Display for RequestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![HEADER.map(str::to_owned)];
        rows.extend(self.0.iter().map(|(request, count)| cells(request, *count)));
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
