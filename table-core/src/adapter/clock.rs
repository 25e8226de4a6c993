use std::fmt;

use async_trait::async_trait;

use crate::forward_to_store;
use crate::model::Ticks;
use crate::store::{StoreContext, TableStore};

/// A store with another clock: by it, entities of a type with `#[expires]` expire. The times that the store gives to its rows do not change.
///
/// ```
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use std::sync::Arc;
/// use table_core::adapter::WithClock;
/// use table_core::prelude::*;
/// # use table_core::typed::PlainTable;
///
/// #[derive(Debug, TableEntity)]
/// struct Session {
///     #[partition_key]
///     user: String,
///     #[row_key]
///     id: u32,
///     #[expires]
///     until: Ticks,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let start: Ticks = "2013-01-01T08:00:00Z".parse()?;
/// let time = Arc::new(AtomicI64::new(start.get()));
/// let clock = Arc::clone(&time);
/// let store = WithClock::new(MemoryStore::new(), move || Ticks::new(clock.load(Ordering::Relaxed)).unwrap_or(Ticks::MIN));
/// let sessions = PlainTable::<Session>::new(store, "Sessions")?;
/// sessions.create_if_missing().await?;
/// let until: Ticks = "2013-01-01T09:00:00Z".parse()?;
/// sessions.insert(&Session { user: "ann".into(), id: 1, until }).await?;
/// assert!(sessions.get(Session::key("ann", 1)?).await?.is_some());
/// time.store(until.get(), Ordering::Relaxed); // an hour later
/// assert!(sessions.get(Session::key("ann", 1)?).await?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct WithClock<S> {
    store: S,
    context: StoreContext,
}

impl<S: TableStore> WithClock<S> {
    /// Wraps a store. `clock` returns the present time.
    pub fn new(store: S, clock: impl Fn() -> Ticks + Send + Sync + 'static) -> Self {
        let context = store.context().clone().with_clock(clock);
        Self { store, context }
    }
}

impl<S: fmt::Debug> fmt::Debug for WithClock<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithClock")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore> TableStore for WithClock<S> {
    forward_to_store!(self => self.store;
        profile, create_table, delete_table, list_tables, get, query, write, transact);

    fn context(&self) -> &StoreContext {
        &self.context
    }
}
