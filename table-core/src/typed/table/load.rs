//! Values that are stored outside of their row: reads of a type with such values read them too.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _, stream};

use super::handle::Shared;
use super::{PlainTable, TableQuery};
use crate::model::Entity;
use crate::query::{Filter, Page, ReadablePage, UnreadableEntity};
use crate::store::{Error, Result, RowFilter};
use crate::typed::{FromEntity, Requirements, Schema};

/// Reads the values that are stored outside of their rows.
pub trait RowLoader: fmt::Debug + Send + Sync + 'static {
    /// Reads the values of a row, `concurrency` at once. If another writer has removed one with the row, the row is read again, and loaded if it
    /// is still found. `None` if it is not.
    fn load<'a>(
        &'a self,
        row: Entity,
        concurrency: usize,
        is_found: &'a (dyn Fn(&Entity) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<Option<LoadedRow>>>;

    /// The row with an empty value in place of each that is stored outside: the row shows its type without them.
    fn with_placeholders(&self, row: Entity) -> Entity;
}

/// A row that was loaded.
#[derive(Clone, Debug)]
pub struct LoadedRow {
    /// The row as stored.
    pub stored: Entity,
    /// The row with all values.
    pub whole: Entity,
}

impl<T: FromEntity> PlainTable<T> {
    /// As [`new`](Self::new), for a type with values outside of their rows. Reads of such a type read them by this loader; writes leave them to
    /// the caller.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    #[doc(hidden)]
    pub fn loaded_by<U: FromEntity>(
        &self,
        loader: Option<Arc<dyn RowLoader>>,
    ) -> Result<PlainTable<U>> {
        PlainTable::open(Shared {
            loader,
            ..self.shared().clone()
        })
    }
}

impl<T> PlainTable<T> {
    /// The loader of the values outside of rows.
    #[doc(hidden)]
    pub fn loader(&self) -> Option<&Arc<dyn RowLoader>> {
        self.shared().loader.as_ref()
    }
}

impl Shared {
    /// The loader, if the result of a read has values outside of its row.
    pub(super) fn loader_of<R: FromEntity>(&self) -> Option<&Arc<dyn RowLoader>> {
        let loader = self.loader.as_ref()?;
        (!R::requirements().large.is_empty()).then_some(loader)
    }
}

/// The first property in a filter whose values may be outside of their rows, in any version of the schemas.
pub(super) fn first_large(filter: &Filter, required: &Requirements) -> Option<String> {
    let mut found = None;
    filter.for_each_property(&mut |name| {
        if found.is_none()
            && (required.schemas.iter()).any(|schema| has_large_property(schema, name))
        {
            found = Some(name.to_owned());
        }
    });
    found
}

fn has_large_property(schema: &'static Schema, name: &str) -> bool {
    let mut versions = std::iter::successors(Some(schema), |version| version.previous);
    versions.any(|version| {
        (version.properties.iter())
            .any(|property| property.large.is_some() && property.name == name)
    })
}

/// How the rows of a query are loaded.
#[derive(Clone)]
pub(super) struct Loads {
    loader: Arc<dyn RowLoader>,
    concurrency: usize,
    filter: Option<Filter>,
    row_filter: RowFilter,
}

impl Loads {
    pub(super) async fn row(&self, row: Entity) -> Result<Option<LoadedRow>> {
        // The store has compared only the row that it returned with the filter.
        let is_found = |row: &Entity| self.finds(row);
        // One value after another: several rows are loaded at the same time.
        self.loader.load(row, 1, &is_found).await
    }

    fn finds(&self, row: &Entity) -> bool {
        !self.row_filter.removes(row)
            && (self.filter.as_ref()).is_none_or(|filter| filter.matches(row))
    }

    pub(super) async fn value<R: FromEntity>(&self, row: Entity) -> Result<Option<R>> {
        self.row(row).await?.map(R::from_loaded).transpose()
    }

    /// The values of rows, in their order, without rows that are gone.
    pub(super) fn stream<R: FromEntity>(
        self,
        rows: impl Stream<Item = Result<Entity>> + Send,
    ) -> impl Stream<Item = Result<R>> + Send {
        let concurrency = self.concurrency;
        let loads = rows.map(move |row| {
            let loads = self.clone();
            async move { loads.value::<R>(row?).await }
        });
        loads
            .buffered(concurrency)
            .try_filter_map(|found| ready(Ok(found)))
    }

    pub(super) async fn page<R: FromEntity>(&self, page: Page<Entity>) -> Result<Page<R>> {
        let rows = stream::iter(page.items.into_iter().map(Ok));
        Ok(Page {
            items: self.clone().stream(rows.boxed()).try_collect().await?,
            continuation: page.continuation,
        })
    }

    /// Adds the values of rows to a page, and lists the rows that cannot be read.
    pub(super) async fn readable<R: FromEntity>(
        &self,
        rows: Vec<Entity>,
        into: &mut ReadablePage<R>,
    ) -> Result<()> {
        let loads = stream::iter(rows).map(|row| {
            let key = row.key().clone();
            self.value::<R>(row).map(|loaded| (key, loaded))
        });
        let mut loads = std::pin::pin!(loads.buffered(self.concurrency));
        while let Some((key, loaded)) = loads.next().await {
            match loaded {
                Ok(value) => into.page.items.extend(value),
                // A transient error concerns more than the entity, so it is an error of the page.
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => into.unreadable.push(UnreadableEntity { key, error }),
            }
        }
        Ok(())
    }
}

impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// How the results are loaded; `None` if they are their rows.
    pub(super) fn loads(&self) -> Result<Option<Loads>> {
        match self.table.shared().loader_of::<R>() {
            None => Ok(None),
            Some(loader) => self.loads_by(loader).map(Some),
        }
    }

    pub(super) fn loads_by(&self, loader: &Arc<dyn RowLoader>) -> Result<Loads> {
        // Not more than the limit at once, so that no value is read in vain.
        let limit = self.options.limit.unwrap_or(usize::MAX);
        Ok(Loads {
            loader: Arc::clone(loader),
            concurrency: self.table.shared().concurrency.min(limit).max(1),
            filter: self.to_query()?.filter,
            row_filter: self.row_filter(),
        })
    }

    /// Refuses a filter on a property whose values may be outside of their rows.
    pub(super) fn check_in_rows(&self, filter: &Filter) -> Result<()> {
        if self.table.shared().loader.is_none() {
            return Ok(());
        }
        let found = first_large(filter, &T::requirements())
            .or_else(|| first_large(filter, &R::requirements()));
        found.map_or(Ok(()), |name| {
            let table = self.table.name();
            Err(Error::invalid_argument(format!(
                "the filter compares '{name}' of the table '{table}', whose values may be in blobs: compare another property"
            )))
        })
    }
}

/// Loads the row of a point read. Returns the row with all values.
pub(super) async fn load_point(
    loader: &Arc<dyn RowLoader>,
    row: Option<Entity>,
    concurrency: usize,
    row_filter: &RowFilter,
) -> Result<Option<Entity>> {
    let Some(row) = row else { return Ok(None) };
    let is_found = |row: &Entity| !row_filter.removes(row);
    let loaded = loader.load(row, concurrency, &is_found).await?;
    Ok(loaded.map(|loaded| loaded.whole))
}
