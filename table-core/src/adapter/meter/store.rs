use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Count, Request, RequestCounts};
use crate::adapter::around::{Around, impl_around};
use crate::adapter::call::{Answer, Call};
use crate::model::TableName;
use crate::query::AccessPath;
use crate::store::{OperationKind, Result, TableStore};

/// Counts the requests to the stores that it is attached to.
///
/// Cloning is cheap; clones share the counts, and one meter may count several stores. A request counts when
/// it begins, so failed and cancelled requests are included, as is every attempt of a retry above the meter.
/// Counting costs no request.
///
/// ```
/// use table_core::adapter::{Metered, RequestMeter};
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, TableName};
/// use table_core::store::{Operation, OperationKind, TableStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let meter = RequestMeter::new();
/// let store = Metered::new(MemoryStore::new(), meter.clone());
/// let table = TableName::new("Employees")?;
/// store.create_table(&table).await?;
///
/// let ken = Entity::new("Sales", "empid_000223")?.with("FirstName", "Ken");
/// let (read, cost) = meter
///     .measure(async {
///         store.write(&table, Operation::Insert(ken.clone())).await?;
///         store.get(&table, ken.key(), None).await
///     })
///     .await;
/// assert!(read?.is_some());
/// assert_eq!(cost.total(), 2);
/// assert_eq!(cost.of_kind(OperationKind::Get), 1);
/// assert_eq!(meter.total(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestMeter {
    tables: Arc<Mutex<Tables>>,
}

#[derive(Debug, Default)]
struct Tables {
    named: HashMap<TableName, Sorts>,
    listings: Sorts,
}

type Sorts = HashMap<(OperationKind, Option<AccessPath>), Count>;

impl Tables {
    fn sorts(&mut self, table: Option<&TableName>) -> &mut Sorts {
        match table {
            Some(table) => self.named.entry(table.clone()).or_default(),
            None => &mut self.listings,
        }
    }

    fn iter(&self) -> impl Iterator<Item = (Request, Count)> {
        let named = self.named.iter().map(|(table, sorts)| (Some(table), sorts));
        named.chain([(None, &self.listings)]).flat_map(|(table, sorts)| {
            let request = move |&(kind, path)| Request { table: table.cloned(), kind, path };
            sorts.iter().map(move |(sort, count)| (request(sort), *count))
        })
    }
}

impl RequestMeter {
    /// Creates a meter with all counts at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of requests so far.
    pub fn total(&self) -> u64 {
        self.snapshot().total()
    }

    /// Returns the counts so far.
    pub fn snapshot(&self) -> RequestCounts {
        let mut counts = RequestCounts::default();
        self.lock().iter().for_each(|(request, count)| counts.add(request, count));
        counts
    }

    /// Returns the counts since an earlier snapshot.
    pub fn since(&self, earlier: &RequestCounts) -> RequestCounts {
        self.snapshot() - earlier
    }

    /// Runs the work and returns the counts during that time, including requests of other tasks.
    pub async fn measure<T>(&self, work: impl Future<Output = T>) -> (T, RequestCounts) {
        let before = self.snapshot();
        let result = work.await;
        (result, self.since(&before))
    }

    /// Resets all counts to zero.
    pub fn reset(&self) {
        *self.lock() = Tables::default();
    }

    fn add(&self, call: &Call<'_>, more: Count) {
        *self.lock().sorts(call.table).entry((call.kind, call.path)).or_default() += more;
    }

    // The counts are consistent after every statement, so a panic of another holder leaves nothing to repair.
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store whose requests a [`RequestMeter`] counts.
#[derive(Debug)]
pub struct Metered<S> {
    store: S,
    meter: RequestMeter,
}

impl<S: TableStore> Metered<S> {
    /// Counts the requests to `store`.
    pub const fn new(store: S, meter: RequestMeter) -> Self {
        Self { store, meter }
    }

    /// Returns the meter.
    pub const fn meter(&self) -> &RequestMeter {
        &self.meter
    }
}

impl<S: TableStore> Around for Metered<S> {
    async fn around<T: Answer + Send>(
        &self,
        call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.meter.add(&call, Count { requests: 1, ..Count::default() });
        let result = request.await;
        self.meter.add(
            &call,
            match &result {
                Ok(answer) => Count { entities: answer.items(), ..Count::default() },
                Err(_) => Count { failed: 1, ..Count::default() },
            },
        );
        result
    }
}

impl_around!(Metered);
