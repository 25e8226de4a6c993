//! Inserts of a stream of typed entities, through the write path of any typed handle.

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{
    FutureExt as _, Stream, StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream,
};
use table_core::model::TableName;
use table_core::store::{BulkOutcome, BulkSummary, Operation, Result, Written};
use table_core::typed::{PlainTable, TableEntity};

use super::{BulkOptions, BulkWriter};
use crate::index::BulkInsert;
use crate::rows::in_order::run_in_order;
use crate::spread::SpreadTable;
use crate::table::Table;
use crate::time_slices::TimeSlices;
use crate::wide::WideTable;

/// An item of a stream of entities: an entity, or the result of reading one.
pub trait BulkItem<T>: Send {
    /// Returns the entity.
    ///
    /// # Errors
    /// Returns the error of the item.
    fn into_entity(self) -> Result<T>;
}

impl<T: Send> BulkItem<T> for T {
    fn into_entity(self) -> Result<T> {
        Ok(self)
    }
}

impl<T: Send> BulkItem<T> for Result<T> {
    fn into_entity(self) -> Result<T> {
        self
    }
}

/// A typed handle that inserts entities in bulk.
pub trait BulkTable: Send + Sync {
    /// The type of the entities.
    type Entity: TableEntity;

    /// Starts bulk work on the handle, with the default options. No request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// use futures_util::stream;
    /// use table_patterns::prelude::*;
    /// use table_patterns::bulk::BulkTable as _;
    /// # #[derive(TableEntity)]
    /// # struct Reading { #[partition_key] sensor: String, #[row_key] number: u32 }
    /// let readings = Database::new(MemoryStore::new()).table::<Reading>("Readings")?;
    /// readings.declare().await?;
    /// let input = stream::iter((0..250).map(|number| Reading { sensor: "roof".to_owned(), number }));
    /// let summary = readings.bulk().insert_all(input).on_progress(|done| println!("{}", done.written)).await?;
    /// assert_eq!((summary.written, summary.requests), (250, 3));
    /// # Ok(())
    /// # }
    /// ```
    fn bulk(&self) -> BulkWork<'_, Self> {
        BulkWork {
            table: self,
            options: BulkOptions::default(),
        }
    }

    /// Inserts entities while the stream is polled. An error of the input is the last item.
    #[doc(hidden)]
    fn insert_each<'a>(
        &'a self,
        entities: BoxStream<'static, Result<Self::Entity>>,
        options: BulkOptions,
    ) -> BoxStream<'a, Result<BulkOutcome>>;
}

/// Bulk work on a typed handle. [`BulkTable::bulk`] starts it.
#[derive(Debug)]
#[must_use = "bulk work does nothing until it is awaited"]
pub struct BulkWork<'a, H: ?Sized> {
    table: &'a H,
    options: BulkOptions,
}

impl<'a, H: BulkTable + ?Sized> BulkWork<'a, H> {
    /// Sets the options. All handles use [`concurrency`](BulkOptions::concurrency); a [`Table`] without indexes uses all of them.
    pub fn with_options(mut self, options: BulkOptions) -> Self {
        self.options = options;
        self
    }

    /// Inserts every entity of a stream of entities, or of results of entities. Nothing is written until the result is
    /// awaited.
    ///
    /// | handle | requests |
    /// |---|---|
    /// | [`Table`] without indexes | 1 per group of up to 100 entities of a partition |
    /// | [`Table`] with indexes | the requests of one write per group: see [`IndexedEntities::insert_all`](crate::index::IndexedEntities::insert_all) |
    /// | [`Table`] of a type with large fields, [`WideTable`], [`SpreadTable`], [`TimeSlices`] | the requests of `insert` per entity |
    pub fn insert_all<S>(self, entities: S) -> InsertAll<'a>
    where
        S: Stream<Item: BulkItem<H::Entity>> + Send + 'static,
    {
        let outcomes = self
            .table
            .insert_each(entities.map(BulkItem::into_entity).boxed(), self.options);
        InsertAll {
            outcomes,
            progress: None,
        }
    }
}

type Report = Box<dyn Fn(&BulkSummary) + Send>;

/// An insert of a stream of entities. Await it for the counts by outcome, or take the [`outcomes`](Self::outcomes).
#[must_use = "an insert does nothing until it is awaited"]
pub struct InsertAll<'a> {
    outcomes: BoxStream<'a, Result<BulkOutcome>>,
    progress: Option<Report>,
}

impl<'a> InsertAll<'a> {
    /// Calls `report` after every outcome with the counts so far.
    pub fn on_progress(mut self, report: impl Fn(&BulkSummary) + Send + 'static) -> Self {
        self.progress = Some(Box::new(report));
        self
    }

    /// Returns an outcome for every entity, in the order of the answers. An error of the input is the last item, after the
    /// outcomes of the entities before it.
    pub fn outcomes(self) -> impl Stream<Item = Result<BulkOutcome>> + Send + Unpin + use<'a> {
        self.outcomes
    }
}

impl<'a> IntoFuture for InsertAll<'a> {
    type Output = Result<BulkSummary>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    /// Inserts, and counts the outcomes.
    ///
    /// # Errors
    /// Returns the error of the input; the entities before it are written. Errors of single entities are in the summary.
    fn into_future(self) -> Self::IntoFuture {
        let Self {
            mut outcomes,
            progress,
        } = self;
        async move {
            let mut summary = BulkSummary::default();
            while let Some(outcome) = outcomes.try_next().await? {
                summary.add(outcome);
                if let Some(report) = &progress {
                    report(&summary);
                }
            }
            Ok(summary)
        }
        .boxed()
    }
}

impl fmt::Debug for InsertAll<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InsertAll").finish_non_exhaustive()
    }
}

impl<T: TableEntity> BulkTable for PlainTable<T> {
    type Entity = T;

    fn insert_each<'a>(
        &'a self,
        entities: BoxStream<'static, Result<T>>,
        options: BulkOptions,
    ) -> BoxStream<'a, Result<BulkOutcome>> {
        let table = self.name().clone();
        let inserts = entities
            .map(move |entity| Ok((table.clone(), Operation::Insert(entity?.to_entity()?))));
        let outcomes =
            BulkWriter::with_options(Arc::clone(self.store()), options).outcomes(inserts);
        if T::SCHEMA.expiry.is_none() {
            return outcomes.boxed();
        }
        // A sweep finds the entities by the manifest.
        let registered = async { self.register(T::SCHEMA).await.map(|()| outcomes) };
        registered.try_flatten_stream().boxed()
    }
}

impl<T: TableEntity> BulkTable for Table<T> {
    type Entity = T;

    fn insert_each<'a>(
        &'a self,
        entities: BoxStream<'static, Result<T>>,
        options: BulkOptions,
    ) -> BoxStream<'a, Result<BulkOutcome>> {
        if self.large().is_some() {
            let table = self.name();
            let insert = move |entity: T| async move { self.insert(&entity).await }.boxed();
            let name = move |_: &T| Ok(table.clone());
            return one_by_one(entities, options.concurrency, name, insert);
        }
        let start = async move {
            Ok(match self.maintained_entities().await? {
                Some(indexed) => {
                    let options = BulkInsert::default().with_concurrency(options.concurrency);
                    let entities = entities.map(|entity| entity?.to_entity());
                    indexed.insert_all(entities, options).boxed()
                }
                None if self.ignores_indexes() => {
                    self.plain().insert_each(entities, options.write_indexed())
                }
                None => self.plain().insert_each(entities, options),
            })
        };
        start.try_flatten_stream().boxed()
    }
}

/// The inserts of a handle that writes entities one by one.
macro_rules! one_by_one {
    ($handle:ident, |$table:ident, $entity:ident| $name:expr, $version:expr) => {
        impl<T: TableEntity> BulkTable for $handle<T> {
            type Entity = T;

            fn insert_each<'a>(
                &'a self,
                entities: BoxStream<'static, Result<T>>,
                options: BulkOptions,
            ) -> BoxStream<'a, Result<BulkOutcome>> {
                let name = move |$entity: &T| -> Result<TableName> {
                    let $table = self;
                    Ok($name)
                };
                let insert = move |entity: T| {
                    async move { self.insert(&entity).await.map($version) }.boxed()
                };
                one_by_one(entities, options.concurrency, name, insert)
            }
        }
    };
}

one_by_one!(
    SpreadTable,
    |table, _entity| table.name().clone(),
    |written| written
);
one_by_one!(
    WideTable,
    |table, _entity| table.entities().table_name().clone(),
    |wide| {
        wide.etag()
            .cloned()
            .map_or_else(Written::default, Written::version)
    }
);
one_by_one!(
    TimeSlices,
    |slices, entity| slices.table_of_entity(entity)?,
    |written| written
);

/// Inserts several entities at once, and entities of one key in the order of the input. After an error of the input, the entities
/// before it are inserted, and the error is the last item. `name` gives the table of an entity.
fn one_by_one<'a, T: TableEntity>(
    entities: BoxStream<'static, Result<T>>,
    concurrency: usize,
    name: impl Fn(&T) -> Result<TableName> + Send + 'a,
    insert: impl Fn(T) -> BoxFuture<'a, Result<Written>> + Send + 'a,
) -> BoxStream<'a, Result<BulkOutcome>> {
    // The key is taken before any request: an entity without a valid key ends the input, as an error of the stream does.
    let keyed = entities.map(move |entity| {
        let entity = entity?;
        Ok((name(&entity)?, entity.entity_key()?.into_key(), entity))
    });
    // The input ends at its first error, which is kept until the entities before it are inserted.
    let failure = Arc::new(Mutex::new(None));
    let ending = Arc::clone(&failure);
    let read = keyed.scan((), move |(), entity: Result<_>| {
        let entity = entity
            .map_err(|error| *ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(error));
        ready(entity.ok())
    });
    let inserts = read.enumerate().map(move |(number, (table, key, entity))| {
        let (written, inserting) = (vec![(table.clone(), key.clone())], insert(entity));
        let outcome =
            async move { BulkOutcome::of_request(table, key, number as u64, inserting.await) };
        (written, outcome.boxed())
    });
    let last = stream::once(async move {
        failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    });
    run_in_order(inserts, concurrency)
        .map(Ok)
        .chain(last.filter_map(|error| ready(error.map(Err))))
        .boxed()
}
