use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use super::{PlainTable, SchemaDiff, TableQuery};
use crate::model::Entity;
use crate::query::{Continuation, ReadablePage, UnreadableEntity};
use crate::store::{Conflicts, CycleDetector, Error, Operation, Result};
use crate::typed::{FromEntity, TableEntity};

/// The upgrade of every entity of a table that is stored in an older schema version. Every typed handle has a method `upgrade` that
/// creates it; nothing is sent until [`plan`](Self::plan) or [`run`](Self::run).
///
/// The rows are read page by page. The older entities of a page are converted several at once, each under the version that was read, and
/// then the next page is read. So a [cursor](UpgradeReport::cursor) after a page is the place to continue.
///
/// ```
/// # use table_core::prelude::*;
/// # use table_core::typed::PlainTable;
/// # use table_core::typed::Upgrade;
/// # #[derive(TableEntity)]
/// # #[entity(type = "Customer")]
/// # struct CustomerV1 { #[partition_key] country: String, #[row_key] number: u32, full_name: String }
/// # #[derive(TableEntity)]
/// # #[entity(type = "Customer", version = 2, previous = CustomerV1)]
/// # struct Customer { #[partition_key] country: String, #[row_key] number: u32, name: String }
/// # impl From<CustomerV1> for Customer {
/// #     fn from(old: CustomerV1) -> Self { Self { country: old.country, number: old.number, name: old.full_name } }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # let customers = PlainTable::<Customer>::new(MemoryStore::new(), "Customers")?;
/// # customers.create_if_missing().await?;
/// # let old = CustomerV1 { country: "UK".into(), number: 1, full_name: "Ada".into() };
/// # customers.view::<CustomerV1>()?.insert(&old).await?;
/// let plan = customers.upgrade().plan().await?; // reads every row and writes nothing
/// assert_eq!((plan.older(), plan.failed), (1, 0));
///
/// let upgrade = customers.upgrade().on_progress(|so_far| match &so_far.cursor {
///     Some(cursor) => println!("{} rows; continue at {cursor}", so_far.rows),
///     None => println!("all {} rows", so_far.rows),
/// });
/// let done = upgrade.run().await?;
/// assert_eq!((done.upgraded, done.cursor), (1, None));
/// # Ok(())
/// # }
/// ```
///
/// # Interruption
/// A conversion is one conditional write, so an interruption leaves each entity in one version or the other. Give the last cursor that was
/// reported to [`resume`](Self::resume), or run the upgrade again from the start: entities in the current version are only read.
///
/// # Cost
/// 1 request per page of rows, and for each older entity the requests of an update without its read. 2 more if another writer changes the
/// entity at the same time.
#[must_use = "an upgrade does nothing until it is run"]
pub struct Upgrade<T> {
    rows: Arc<dyn UpgradeRows<T>>,
    from: Option<UpgradeCursor>,
    concurrency: usize,
    progress: Option<Progress>,
}

type Progress = Box<dyn Fn(&UpgradeReport) + Send + Sync>;

/// The rows of a handle, for an [`Upgrade`]: how they are read and converted.
#[async_trait]
pub trait UpgradeRows<T>: Send + Sync {
    /// Reads a page of rows of the type, from the start or from the `next` of an earlier page. 1 request.
    ///
    /// # Errors
    /// Returns the errors of the store. `from` belongs to another table.
    async fn page(&self, from: Option<&str>) -> Result<UpgradePage>;

    /// Converts a row without writing it. No request, unless the handle needs more than the row.
    ///
    /// # Errors
    /// Fails if the row cannot be converted.
    async fn check(&self, row: &UpgradeRow) -> Result<()>
    where
        T: TableEntity,
    {
        converted::<T>(&row.entity).map(drop)
    }

    /// Converts a row and writes it in the version that was read; after a conflict reads it again. Returns `false` if the entity does not
    /// exist any more or another program has converted it.
    ///
    /// # Errors
    /// Fails if the row cannot be converted; also returns the errors of the store.
    async fn convert(&self, row: UpgradeRow) -> Result<bool>;
}

/// A page of rows of an [`UpgradeRows`].
#[derive(Debug, Default)]
pub struct UpgradePage {
    /// The rows.
    pub rows: Vec<UpgradeRow>,
    /// The rows that cannot be read.
    pub unreadable: Vec<UnreadableEntity>,
    /// Where the next page begins; `None` after the last page.
    pub next: Option<String>,
}

/// A row of an [`UpgradePage`].
#[derive(Clone, Debug)]
pub struct UpgradeRow {
    /// The entity as it is stored, under its logical key.
    pub entity: Entity,
    /// What the handle needs to write the row.
    pub state: Option<Arc<dyn Any + Send + Sync>>,
}

impl From<Entity> for UpgradeRow {
    fn from(entity: Entity) -> Self {
        Self {
            entity,
            state: None,
        }
    }
}

impl UpgradePage {
    /// Reads a page of a query of stored rows. 1 request.
    ///
    /// # Errors
    /// Returns the errors of the query.
    pub async fn of_query<T: FromEntity>(
        query: &TableQuery<T, Entity>,
        from: Option<&str>,
    ) -> Result<Self> {
        let from = from.map(str::parse::<Continuation>).transpose()?;
        let ReadablePage { page, unreadable } = query.readable_page(from.as_ref()).await?;
        let next = page
            .continuation
            .map(|continuation| continuation.to_string());
        Ok(Self {
            rows: page.items.into_iter().map(UpgradeRow::from).collect(),
            unreadable,
            next,
        })
    }
}

/// Where an interrupted [`Upgrade`] continues: opaque text. It contains a key of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UpgradeCursor(String);

impl fmt::Display for UpgradeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text of another table is refused when the upgrade runs.
impl FromStr for UpgradeCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self(text.to_owned()))
    }
}

/// The result of an [`Upgrade`], of its plan, or its progress.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct UpgradeReport {
    /// The current schema version of the type.
    pub version: u32,
    /// The number of rows of the type that were read.
    pub rows: u64,
    /// The number of these rows by the schema version in which they were stored.
    pub versions: BTreeMap<i64, u64>,
    /// The number of entities that were converted and written; 0 in a plan.
    pub upgraded: u64,
    /// The number of rows that cannot be converted.
    pub failed: u64,
    /// The first 100 rows that cannot be converted, with the reasons.
    pub failures: Vec<UnreadableEntity>,
    /// Where the upgrade continues; `None` at the end.
    pub cursor: Option<UpgradeCursor>,
}

/// Failures that a report lists.
const MAX_LISTED: usize = 100;

impl UpgradeReport {
    /// Returns the number of rows of older schema versions that were read.
    pub fn older(&self) -> u64 {
        self.versions
            .range(..i64::from(self.version))
            .map(|(_, rows)| rows)
            .sum()
    }

    /// Returns the number of converted entities.
    ///
    /// # Errors
    /// Fails if a row cannot be converted: returns the error of the first such row.
    pub fn into_result(self) -> Result<u64> {
        match self.failures.into_iter().next() {
            Some(failure) => Err(failure.error),
            None => Ok(self.upgraded),
        }
    }

    fn fail(&mut self, failure: UnreadableEntity) {
        self.failed += 1;
        if self.failures.len() < MAX_LISTED {
            self.failures.push(failure);
        }
    }
}

/// What an upgrade did with one row, and the schema version that the row had before.
enum RowResult {
    /// The row has the current version or a later one.
    Current(i64),
    /// The row had an older version. Whether the upgrade has written it; a plan writes nothing.
    Older(i64, bool),
    /// The row could not be converted. Its version is unknown if the version property cannot be read.
    Failed(Option<i64>, UnreadableEntity),
}

impl<T: TableEntity> Upgrade<T> {
    /// Creates the upgrade of a handle.
    pub fn new(rows: impl UpgradeRows<T> + 'static, concurrency: usize) -> Self {
        Self {
            rows: Arc::new(rows),
            from: None,
            concurrency: concurrency.max(1),
            progress: None,
        }
    }

    /// Continues an interrupted upgrade after the rows that it had done.
    pub fn resume(mut self, cursor: UpgradeCursor) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Sets the number of entities that are converted at once; at least 1. Default: the concurrency of the handle.
    pub fn with_concurrency(mut self, entities: usize) -> Self {
        self.concurrency = entities.max(1);
        self
    }

    /// Calls `report` after each page with the result so far, whose cursor is the place to continue.
    pub fn on_progress(mut self, report: impl Fn(&UpgradeReport) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(report));
        self
    }

    /// Reads every row and converts the older rows in memory: what [`run`](Self::run) would write and which rows it cannot convert.
    /// Writes nothing. 1 request per page; for large fields also the requests of their blobs.
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub async fn plan(&self) -> Result<UpgradeReport> {
        self.pass(false).await
    }

    /// Converts every older row. A row that cannot be converted does not stop the others: it is listed.
    ///
    /// # Errors
    /// Returns the errors of the store, which end the upgrade: continue at the last cursor that was reported.
    pub async fn run(&self) -> Result<UpgradeReport> {
        self.pass(true).await
    }

    /// Reads every entity, in every layout, and compares it with the type. Writes nothing. Entities of several rows, with blobs or in buckets
    /// count once, under their logical keys. 1 request per page; for large fields also the requests of their blobs.
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub async fn diff(&self) -> Result<SchemaDiff> {
        let (mut diff, mut cycles) = (SchemaDiff::of_no_rows(T::SCHEMA), CycleDetector::default());
        let mut from = self.from.clone().map(|from| from.0);
        loop {
            let page = self.rows.page(from.as_deref()).await?;
            let rows = page.rows.len() + page.unreadable.len();
            page.next
                .as_deref()
                .map_or(Ok(()), |next| cycles.add(next, rows))?;
            page.unreadable
                .into_iter()
                .for_each(|row| diff.add_unreadable(row));
            let checks = stream::iter(page.rows).map(|row| async {
                let checked = self.rows.check(&row).await;
                (row.entity, checked)
            });
            let mut checks = std::pin::pin!(checks.buffered(self.concurrency));
            while let Some((entity, checked)) = checks.next().await {
                diff.add(T::SCHEMA, &entity);
                match checked {
                    Err(error) if !error.is_of_one_entity() => return Err(error),
                    Err(error) => diff.list_unreadable(UnreadableEntity {
                        key: entity.key().clone(),
                        error,
                    }),
                    Ok(()) => {}
                }
            }
            from = page.next;
            if from.is_none() {
                return Ok(diff);
            }
        }
    }

    /// Reads each row once, and converts the rows of older versions if `write` is set.
    async fn pass(&self, write: bool) -> Result<UpgradeReport> {
        let cursor = self.from.clone();
        let mut report = UpgradeReport {
            version: T::SCHEMA.version,
            cursor,
            ..UpgradeReport::default()
        };
        let mut cycles = CycleDetector::default();
        loop {
            let from = report.cursor.take();
            let UpgradePage {
                rows,
                unreadable,
                next,
            } = self.rows.page(from.as_ref().map(|from| &*from.0)).await?;
            let found = rows.len() + unreadable.len();
            next.as_deref()
                .map_or(Ok(()), |next| cycles.add(next, found))?;
            report.rows += found as u64;
            unreadable.into_iter().for_each(|row| report.fail(row));
            let work = stream::iter(rows).map(|row| upgrade_row(&*self.rows, row, write));
            let mut work = std::pin::pin!(work.buffered(self.concurrency));
            while let Some(done) = work.try_next().await? {
                report.add(done);
            }
            report.cursor = next.map(UpgradeCursor);
            if let Some(progress) = &self.progress {
                progress(&report);
            }
            if report.cursor.is_none() {
                return Ok(report);
            }
        }
    }
}

impl UpgradeReport {
    fn add(&mut self, result: RowResult) {
        let version = match result {
            RowResult::Current(version) => Some(version),
            RowResult::Older(version, written) => {
                self.upgraded += u64::from(written);
                Some(version)
            }
            RowResult::Failed(version, failure) => {
                self.fail(failure);
                version
            }
        };
        if let Some(version) = version {
            *self.versions.entry(version).or_default() += 1;
        }
    }
}

/// Converts a row of an older version, or checks that it can be converted. Returns the errors that do not belong to this row alone.
async fn upgrade_row<T: TableEntity>(
    rows: &dyn UpgradeRows<T>,
    row: UpgradeRow,
    write: bool,
) -> Result<RowResult> {
    let key = row.entity.key().clone();
    let version = match T::SCHEMA.stored_version(&row.entity) {
        Ok(version) if version >= i64::from(T::SCHEMA.version) => {
            return Ok(RowResult::Current(version));
        }
        Ok(version) => version,
        Err(error) => return Ok(RowResult::Failed(None, UnreadableEntity { key, error })),
    };
    let done = match write {
        true => rows.convert(row).await,
        false => rows.check(&row).await.map(|()| false),
    };
    match done {
        Ok(written) => Ok(RowResult::Older(version, written)),
        Err(error) if error.is_of_one_entity() => Ok(RowResult::Failed(
            Some(version),
            UnreadableEntity { key, error },
        )),
        Err(error) => Err(error),
    }
}

impl<T> fmt::Debug for Upgrade<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgrade")
            .field("from", &self.from)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// Schema versions.
impl<T: TableEntity> PlainTable<T> {
    /// Creates the upgrade of all entities of an older schema version, to be planned or run. Sends no request.
    pub fn upgrade(&self) -> Upgrade<T> {
        Upgrade::new(self.clone(), self.shared().concurrency)
    }

    /// Converts every entity that is stored in an older schema version to the current version. Returns the number of
    /// converted entities. [`upgrade`](Self::upgrade) also has a plan, progress and a cursor.
    ///
    /// Properties that no version of the type knows are kept. Rows of a newer version do not change.
    ///
    /// Reads convert older rows, but filters and projections work on the stored properties. Run the upgrade after the
    /// last program that writes the older version has stopped. After an interruption run it again; it continues with
    /// the remaining rows. If another writer changes an entity at the same time, the entity is read again.
    ///
    /// 1 request per page of the type's rows and 1 request per older entity, at most
    /// [`with_concurrency`](Self::with_concurrency) at once; 2 more requests per conflict with another writer. An entity that cannot be
    /// converted does not stop the upgrade of the others; [`SchemaDiff`](crate::typed::SchemaDiff) lists such entities before. The
    /// handles of `table-patterns`, such as `Table`, have their own `upgrade_all`.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::typed::{PlainTable, TableEntity};
    /// #[derive(TableEntity)]
    /// #[entity(type = "Customer")]
    /// struct CustomerV1 {
    ///     #[partition_key] country: String,
    ///     #[row_key] number: u32,
    ///     full_name: String,
    /// }
    /// #[derive(TableEntity)]
    /// #[entity(type = "Customer", version = 2, previous = CustomerV1)]
    /// struct Customer {
    ///     #[partition_key] country: String,
    ///     #[row_key] number: u32,
    ///     name: String,
    /// }
    /// impl From<CustomerV1> for Customer {
    ///     fn from(old: CustomerV1) -> Self {
    ///         Self { country: old.country, number: old.number, name: old.full_name }
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// let customers = PlainTable::<Customer>::new(MemoryStore::new(), "Customers")?;
    /// customers.create_if_missing().await?;
    /// let old = CustomerV1 { country: "UK".into(), number: 1, full_name: "Ada".into() };
    /// customers.view::<CustomerV1>()?.insert(&old).await?;
    ///
    /// let by_name = customers.query().filter(Customer::NAME.eq("Ada"));
    /// assert_eq!(by_name.count().await?, 0); // the row has a full_name
    /// assert_eq!(customers.upgrade_all().await?, 1);
    /// assert_eq!(by_name.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if a conversion fails or changes a key, after all other entities were converted: returns the first such error. Also returns the
    /// errors of the store.
    pub async fn upgrade_all(&self) -> Result<u64> {
        self.upgrade().run().await?.into_result()
    }
}

#[async_trait]
impl<T: TableEntity> UpgradeRows<T> for PlainTable<T> {
    async fn page(&self, from: Option<&str>) -> Result<UpgradePage> {
        self.shared()
            .check_no_index(T::SCHEMA.indexes.first(), "an upgrade")?;
        UpgradePage::of_query(&self.query().with_hidden().project::<Entity>(), from).await
    }

    async fn convert(&self, row: UpgradeRow) -> Result<bool> {
        let mut row = row.entity;
        let mut conflicts = Conflicts::new(self.shared().attempts);
        // After a conflict the row is read again. If the other writer has converted it, nothing is left to do.
        while T::SCHEMA.stored_version(&row)? < i64::from(T::SCHEMA.version) {
            let key = row.key().clone();
            let version = row.version()?;
            match self
                .write(Operation::Replace(converted::<T>(&row)?, version))
                .await
            {
                Ok(_) => return Ok(true),
                Err(error) if error.is_entity_not_found() => return Ok(false),
                Err(error) => conflicts.wait(error).await?,
            }
            let Some(now) = self.store().get(self.name(), &key, None).await? else {
                return Ok(false);
            };
            row = now;
        }
        Ok(false)
    }
}

/// Returns the row in the current schema version, with the properties that no version knows.
fn converted<T: TableEntity>(row: &Entity) -> Result<Entity> {
    let mut new = T::from_entity(row.clone())?.to_logical()?;
    T::SCHEMA.keep_unknown(row, &mut new)?;
    Ok(new)
}
