use super::around::{Answer, Around, Call, impl_around};
use crate::model::TableName;
use crate::query::{AccessPath, Plan, Query};
use crate::store::{ErrorKind, OperationKind, Result, TableStore};

/// Which queries are too expensive to send.
///
/// A new guard refuses table scans. The error names an alternative: the cheaper plan with the same result if
/// there is one ([`Query::cheaper_plan`]).
///
/// ```
/// use table_core::adapter::{Guarded, ScanGuard};
/// use table_core::memory::MemoryStore;
/// use table_core::model::TableName;
/// use table_core::query::{AccessPath, Query};
/// use table_core::store::TableStore;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let (people, settings) = (TableName::new("People")?, TableName::new("Settings")?);
/// let guard = ScanGuard::new().refuse_from(AccessPath::PartitionScan).allow(settings.clone());
/// let store = Guarded::new(MemoryStore::new(), guard);
/// store.create_table(&people).await?;
/// store.create_table(&settings).await?;
///
/// assert!(store.query(&settings, &Query::new(), None).await.is_ok());
/// let filter = "PartitionKey eq 'Sales' and (RowKey eq '121' or RowKey eq '322')".parse()?;
/// let error = store.query(&people, &Query::new().with_filter(filter), None).await.unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the scan guard refused a partition scan of 'People': \
///      ask for the same as 2 point reads: ('Sales', '121'); ('Sales', '322')"
/// );
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ScanGuard {
    from: AccessPath,
    tables: Vec<(TableName, Option<AccessPath>)>,
    mode: GuardMode,
}

/// The action of a [`ScanGuard`] for a query that is too expensive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardMode {
    /// Refuses it before it costs a request.
    #[default]
    Refuse,
    /// Sends it and emits a `tracing` warning without keys or values.
    Warn,
}

impl Default for ScanGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl ScanGuard {
    /// Creates a guard that refuses table scans.
    pub const fn new() -> Self {
        Self {
            from: AccessPath::TableScan,
            tables: Vec::new(),
            mode: GuardMode::Refuse,
        }
    }

    /// Refuses this access path and every more expensive one.
    #[must_use]
    pub const fn refuse_from(mut self, path: AccessPath) -> Self {
        self.from = path;
        self
    }

    /// Refuses this access path and every more expensive one for one table.
    #[must_use]
    pub fn refuse_in(mut self, table: TableName, path: AccessPath) -> Self {
        self.tables.push((table, Some(path)));
        self
    }

    /// Allows every access path for one table.
    #[must_use]
    pub fn allow(mut self, table: TableName) -> Self {
        self.tables.push((table, None));
        self
    }

    /// Sets what to do with a query that is too expensive.
    #[must_use]
    pub const fn with_mode(mut self, mode: GuardMode) -> Self {
        self.mode = mode;
        self
    }

    /// Whether the path is refused for a table. The last setting for the table counts.
    fn is_refused(&self, path: AccessPath, is_table: impl Fn(&TableName) -> bool) -> bool {
        let setting = self.tables.iter().rev().find(|(table, _)| is_table(table));
        setting
            .map_or(Some(self.from), |(_, from)| *from)
            .is_some_and(|from| path >= from)
    }
}

/// A store with a [`ScanGuard`]. The guard costs no request.
#[derive(Debug)]
pub struct Guarded<S> {
    store: S,
    guard: ScanGuard,
}

impl<S: TableStore> Guarded<S> {
    /// Guards the queries to `store`.
    pub const fn new(store: S, guard: ScanGuard) -> Self {
        Self { store, guard }
    }
}

impl<S: TableStore> Around for Guarded<S> {
    async fn around<T: Answer + Send>(
        &self,
        _call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        request.await
    }

    fn check_query(&self, table: &TableName, query: &Query) -> Result<()> {
        let path = query.access_path();
        let exact = self.store.profile().case_sensitive_tables;
        let is_table = |named: &TableName| {
            if exact {
                named == table
            } else {
                named.as_str().eq_ignore_ascii_case(table.as_str())
            }
        };
        if !self.guard.is_refused(path, is_table) {
            return Ok(());
        }
        let plan = query.cheaper_plan();
        match self.guard.mode {
            GuardMode::Refuse => {
                let advice = advice(path, plan.as_ref());
                Err(ErrorKind::ScanRefused {
                    path,
                    table: table.to_string(),
                    advice,
                }
                .into())
            }
            GuardMode::Warn => {
                let cheaper = plan.as_ref().map(Plan::requests);
                tracing::warn!(%table, %path, cheaper_plan_requests = cheaper, "costly query");
                Ok(())
            }
        }
    }
}

fn advice(path: AccessPath, plan: Option<&Plan>) -> String {
    let general = match (path, plan) {
        (_, Some(plan)) => return format!("ask for the same as {plan}"),
        (AccessPath::TableScan | AccessPath::PartitionRange, None) => {
            "restrict the filter to one PartitionKey"
        }
        (AccessPath::PartitionScan, None) => "restrict the RowKey in the filter",
        (AccessPath::RowRange | AccessPath::Point, None) => "read single entities by their keys",
    };
    format!("{general}, create an index for this query, or allow the table in the guard")
}

impl_around!(Guarded);
