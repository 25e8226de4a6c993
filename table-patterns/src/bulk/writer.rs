use std::sync::Arc;

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use table_core::adapter::Retrying;
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, Result, TableStore};
use table_core::typed::TableEntity;

use super::run::Run;
use super::send::Sender;
use super::{BulkOptions, BulkOutcome, BulkSummary};

/// Writes a stream of operations, of any tables and partitions, in as few requests as it takes. See the
/// [module](super) for what is promised.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use futures_util::stream;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::bulk::BulkWriter;
///
/// let (store, table) = (Arc::new(MemoryStore::new()), TableName::new("Readings")?);
/// store.create_table(&table).await?;
/// let readings = (0..1000).map(move |n| {
///     let reading = Entity::new(format!("sensor{}", n % 4), format!("{n:06}"))?.with("Celsius", 21.5);
///     Ok((table.clone(), Operation::Insert(reading)))
/// });
/// let summary = BulkWriter::new(store).write(stream::iter(readings)).await?;
/// assert_eq!((summary.written, summary.requests), (1000, 12));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BulkWriter {
    store: Arc<dyn TableStore>,
    options: BulkOptions,
}

impl BulkWriter {
    /// A writer with the default options. No request.
    pub fn new(store: Arc<dyn TableStore>) -> Self {
        Self::with_options(store, BulkOptions::default())
    }

    /// A writer with other options. No request.
    pub fn with_options(store: Arc<dyn TableStore>, options: BulkOptions) -> Self {
        Self { store, options }
    }

    /// Writes everything and counts.
    ///
    /// # Errors
    /// Of the input, or an operation on what an index of its table is of. What was read before is written nonetheless. The
    /// errors of operations are in the summary.
    pub async fn write<S>(&self, operations: S) -> Result<BulkSummary>
    where
        S: Stream<Item = Result<(TableName, Operation)>> + Send + 'static,
    {
        let add = |mut summary: BulkSummary, outcome| async move {
            summary.add(outcome);
            Ok(summary)
        };
        self.outcomes(operations).try_fold(BulkSummary::default(), add).await
    }

    /// Writes while it is polled; an outcome for every operation, in the order of the answers.
    ///
    /// An error of the input is the last item, after the outcomes of what was read before. Dropping the
    /// stream leaves the requests in flight done or undone, and the rest of the input unwritten.
    pub fn outcomes<S>(&self, operations: S) -> impl Stream<Item = Result<BulkOutcome>> + Send + use<S>
    where
        S: Stream<Item = Result<(TableName, Operation)>> + Send + 'static,
    {
        let run = Run::new(operations, self.sender(), self.options.clone());
        let steps = stream::unfold(run, |mut run| async {
            let outcomes = run.next().await?;
            Some((outcomes, run))
        });
        steps.flat_map(stream::iter)
    }

    fn sender(&self) -> Sender {
        let store = Arc::clone(&self.store);
        let store = match &self.options.retry {
            None => store,
            Some(policy) => Arc::new(Retrying::new(store, policy.clone())),
        };
        Sender::new(store, self.options.writes_indexed)
    }
}

/// Typed entities as operations for a [`BulkWriter`].
///
/// ```
/// use futures_util::stream;
/// use table_core::prelude::*;
/// use table_patterns::bulk::operations;
/// # #[derive(TableEntity)]
/// # struct Reading { #[partition_key] sensor: String, #[row_key] number: u32 }
/// let readings = stream::iter((0..10).map(|number| Reading { sensor: "roof".to_owned(), number }));
/// let upserts = operations(&TableName::new("Readings")?, readings, Operation::InsertOrReplace);
/// # drop(upserts);
/// # Ok::<(), table_core::Error>(())
/// ```
pub fn operations<T: TableEntity, S: Stream<Item = T>>(
    table: &TableName,
    entities: S,
    operation: fn(Entity) -> Operation,
) -> impl Stream<Item = Result<(TableName, Operation)>> + use<T, S> {
    let table = table.clone();
    entities.map(move |entity| Ok((table.clone(), operation(entity.to_entity()?))))
}
