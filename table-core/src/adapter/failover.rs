use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use tokio::time::timeout;

use crate::forward_to_store;
use crate::model::{Entity, Key, MANIFEST_PARTITION, TableName};
use crate::query::{Continuation, Page, Query, ReadablePage, Select};
use crate::store::{
    EncryptedNames, EncryptedProperties, Error, ErrorKind, Result, ServiceProfile, StoreContext,
    TableStore,
};

/// A store that reads from a second copy of the data when the first copy fails or is slow. Writes go to the first copy.
///
/// On Azure, the copies are the primary and the secondary endpoint of a geo-redundant account: open one store for each, with
/// `ReadFrom::Secondary` for the second. Each copy can have its own adapters.
///
/// | the primary | the read |
/// |---|---|
/// | answers, or refuses the request | ends with this answer |
/// | fails ([`is_transient`](Error::is_transient)) | is sent to the secondary |
/// | has not answered within [`after`](Failover::after), if set | is also sent to the secondary; the first copy that answers wins |
///
/// If both copies fail, the error is the primary's. A query continues only at the copy that returned its last page, because the service's
/// continuation tokens belong to a copy. The table manifest, which writers rely on, is read from the primary only.
///
/// # Guarantees
/// A read may miss earlier writes: [`has_stale_reads`](ServiceProfile::has_stale_reads) is set. Indexes, journals, queues in tables and
/// eventual transactions refuse such a store. [`ReadSources`] counts the reads of each copy.
///
/// # Cost
/// 1 request for each read, 2 if the read is sent to both copies. With `after`, a slow read costs 2 requests.
///
/// ```
/// use std::time::Duration;
/// use table_core::adapter::{Failover, Fault, FaultInjector, FaultRule, Faulty, ReadSources};
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Key, TableName};
/// use table_core::store::{OperationKind, TableStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// # let (faults, secondary) = (FaultInjector::new(7), MemoryStore::new());
/// # let (primary, table) = (Faulty::new(secondary.clone(), faults.clone()), TableName::new("Employees")?);
/// # primary.create_table(&table).await?;
/// # faults.add(FaultRule::new(Fault::FailBefore).on(OperationKind::Get));
/// let sources = ReadSources::default();
/// let store = Failover::new(primary, secondary)?.after(Duration::from_millis(500)).count(sources.clone());
/// store.get(&table, &Key::new("Sales", "empid_000223")?, None).await?;
/// assert_eq!((sources.primary(), sources.secondary()), (0, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Failover<P, S> {
    primary: P,
    secondary: S,
    profile: ServiceProfile,
    context: StoreContext,
    after: Option<Duration>,
    sources: ReadSources,
}

/// The number of reads that each copy of a [`Failover`] has answered. A read that failed is not counted. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct ReadSources(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    primary: AtomicU64,
    secondary: AtomicU64,
}

impl ReadSources {
    /// Returns the number of reads that the primary answered.
    pub fn primary(&self) -> u64 {
        self.0.primary.load(Ordering::Relaxed)
    }

    /// Returns the number of reads that the secondary answered. These may have missed earlier writes.
    pub fn secondary(&self) -> u64 {
        self.0.secondary.load(Ordering::Relaxed)
    }
}

impl<P: TableStore, S: TableStore> Failover<P, S> {
    /// Reads from `secondary` when a read of `primary` fails.
    ///
    /// # Errors
    /// Fails if the stores are not of the same kind: pages and continuation tokens would differ.
    pub fn new(primary: P, secondary: S) -> Result<Self> {
        // The stores are expected to differ in whether reads are stale, and in nothing else. So both sides are set to
        // `true` before they are compared.
        let profile = ServiceProfile {
            has_stale_reads: true,
            ..primary.profile().clone()
        };
        let other = ServiceProfile {
            has_stale_reads: true,
            ..secondary.profile().clone()
        };
        if profile != other {
            return Err(Error::invalid_argument(format!(
                "the primary store ({}) and the secondary store ({}) differ in their limits; open both with the same service and adapters",
                profile.name, other.name
            )));
        }
        let encryption = OfBoth {
            primary: primary.context().clone(),
            secondary: secondary.context().clone(),
        };
        Ok(Self {
            context: primary
                .context()
                .clone()
                .with_encryption(Arc::new(encryption)),
            primary,
            secondary,
            profile,
            after: None,
            sources: ReadSources::default(),
        })
    }

    /// Sends a read to the secondary also if the primary has not answered after `delay`. Unset, only an error does so.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Counts the reads of each copy in `sources`.
    #[must_use]
    pub fn count(mut self, sources: ReadSources) -> Self {
        self.sources = sources;
        self
    }

    /// Runs a read on the copies that `route` allows, and counts it.
    async fn read<T: Send>(
        &self,
        route: Route,
        primary: impl Future<Output = Result<T>> + Send,
        secondary: impl Future<Output = Result<T>> + Send,
    ) -> Result<(T, ReadFrom)> {
        let result = match route {
            Route::Both => self.either(primary, secondary).await,
            Route::Only(ReadFrom::Primary) => {
                primary.await.map(|answer| (answer, ReadFrom::Primary))
            }
            Route::Only(ReadFrom::Secondary) => {
                secondary.await.map(|answer| (answer, ReadFrom::Secondary))
            }
        };
        if let Ok((_, copy)) = &result {
            let count = match copy {
                ReadFrom::Primary => &self.sources.0.primary,
                ReadFrom::Secondary => &self.sources.0.secondary,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// Reads from the primary, and from the secondary if the primary fails or is late.
    async fn either<T: Send>(
        &self,
        primary: impl Future<Output = Result<T>> + Send,
        secondary: impl Future<Output = Result<T>> + Send,
    ) -> Result<(T, ReadFrom)> {
        let (mut primary, secondary) = (pin!(primary), pin!(secondary));
        // `timeout` borrows the request and does not drop it. After the delay it goes on, because its answer may
        // still be the first.
        let first = match self.after {
            None => Some(primary.as_mut().await),
            Some(delay) => timeout(delay, primary.as_mut()).await.ok(),
        };
        match first {
            Some(Ok(answer)) => Ok((answer, ReadFrom::Primary)),
            Some(Err(error)) => or_secondary(error, secondary).await,
            // `select` polls its first future first: if both answers are there, the answer of the primary wins, which is not stale.
            None => match select(primary, secondary).await {
                Either::Left((Ok(answer), _)) => Ok((answer, ReadFrom::Primary)),
                Either::Left((Err(error), secondary)) => or_secondary(error, secondary).await,
                Either::Right((Ok(answer), _)) => Ok((answer, ReadFrom::Secondary)),
                // The secondary has failed; the primary, which is still under way, decides alone.
                Either::Right((Err(_), primary)) => Ok((primary.await?, ReadFrom::Primary)),
            },
        }
    }
}

/// Reads from the secondary if the primary failed; otherwise the primary has refused the read, and the secondary would too.
async fn or_secondary<T>(
    error: Error,
    secondary: impl Future<Output = Result<T>>,
) -> Result<(T, ReadFrom)> {
    // A table that is being deleted is an answer of the primary. The copy may still have the table, and would return
    // rows that were deleted.
    let failed =
        error.is_transient() && !matches!(error.root().kind(), ErrorKind::TableBeingDeleted { .. });
    if !failed {
        return Err(error);
    }
    secondary
        .await
        .map(|answer| (answer, ReadFrom::Secondary))
        .map_err(|_| error)
}

/// One of the two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadFrom {
    Primary,
    Secondary,
}

/// The copies that may answer a read.
#[derive(Clone, Copy, Debug)]
enum Route {
    Both,
    Only(ReadFrom),
}

/// The copies that may return the page after a continuation token, and the token for each of them.
struct NextPage<'a> {
    route: Route,
    primary: Option<&'a Continuation>,
    secondary: Option<Continuation>,
}

impl<'a> NextPage<'a> {
    fn after(from: Option<&'a Continuation>) -> Self {
        match from {
            None => Self {
                route: Route::Both,
                primary: None,
                secondary: None,
            },
            Some(token) if token.is_of_secondary() => {
                let secondary = Some(token.clone().with_secondary(false));
                Self {
                    route: Route::Only(ReadFrom::Secondary),
                    primary: None,
                    secondary,
                }
            }
            Some(token) => Self {
                route: Route::Only(ReadFrom::Primary),
                primary: Some(token),
                secondary: None,
            },
        }
    }

    /// The next page of a query. Writers rely on the manifest, so only the primary returns it.
    fn of_query(query: &Query, from: Option<&'a Continuation>) -> Self {
        let next = Self::after(from);
        // A writer that misses a new index in a stale manifest would leave the index without entries.
        if query.bounds().partition.as_single() == Some(MANIFEST_PARTITION) {
            return Self {
                route: Route::Only(ReadFrom::Primary),
                ..next
            };
        }
        next
    }
}

/// Marks the continuation token with the copy that returned it.
fn marked<T>((mut page, copy): (Page<T>, ReadFrom)) -> Page<T> {
    page.continuation = page
        .continuation
        .map(|token| token.with_secondary(copy == ReadFrom::Secondary));
    page
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<P: TableStore, S: TableStore> TableStore for Failover<P, S> {
    forward_to_store!(self => self.primary;
        create_table, delete_table, write, transact);

    fn profile(&self) -> &ServiceProfile {
        &self.profile
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        let next = NextPage::after(from);
        let primary = self.primary.list_tables(prefix, next.primary);
        let secondary = self.secondary.list_tables(prefix, next.secondary.as_ref());
        self.read(next.route, primary, secondary).await.map(marked)
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let is_manifest = key.partition() == MANIFEST_PARTITION;
        let route = if is_manifest {
            Route::Only(ReadFrom::Primary)
        } else {
            Route::Both
        };
        let (primary, secondary) = (
            self.primary.get(table, key, select),
            self.secondary.get(table, key, select),
        );
        self.read(route, primary, secondary)
            .await
            .map(|(entity, _)| entity)
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let next = NextPage::of_query(query, from);
        let primary = self.primary.query(table, query, next.primary);
        let secondary = self.secondary.query(table, query, next.secondary.as_ref());
        let (ReadablePage { page, unreadable }, copy) =
            self.read(next.route, primary, secondary).await?;
        Ok(ReadablePage {
            page: marked((page, copy)),
            unreadable,
        })
    }

    fn context(&self) -> &StoreContext {
        &self.context
    }
}

/// The encrypted properties of the two copies: names that a type declares are declared in both, and writes go to the primary.
struct OfBoth {
    primary: StoreContext,
    secondary: StoreContext,
}

impl EncryptedProperties for OfBoth {
    fn declare(&self, table: &TableName, names: &[&str]) {
        self.primary.declare_encrypted(table, names);
        self.secondary.declare_encrypted(table, names);
    }

    fn names(&self, table: &TableName) -> EncryptedNames {
        self.primary.encrypted_names(table)
    }
}
