//! Options of a handle with indexes.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "blobs")]
use object_store::ObjectStore;
use table_core::queue::WorkQueue;
use table_core::store::{Error, Result};

use super::states::processes::Durations;
use crate::entry::Index;
use crate::journal::{Acknowledge, Clearing, LONGEST_LEASE, Timing};

/// Options of an [`IndexedEntities`](crate::index::IndexedEntities).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexOptions {
    /// The durations of the cross-partition protocol.
    pub timing: Timing,
    /// The time for which the states of indexes are cached. A change of state waits for the longest cache time plus the longest
    /// request of the processes that the table's manifest registers. In a store that only this process writes
    /// ([`local_writers`](table_core::store::StoreContext::local_writers)), a change of state waits for the writes under way instead, and
    /// handles with older states read them again.
    ///
    /// A write reads states again that are valid for less than a quarter of this time. It sends its tickets and reservations before it
    /// commits by these states. So let the cache time be at least a quarter of the time limit of a request, and about 12 times the usual
    /// duration of a request.
    pub cache: Duration,
    /// Attempts of a read-modify-write that conflicts with other writers of the entity.
    pub attempts: u32,
    /// The queue for tickets. Without a queue, a sweep finds the writes that crashes leave unfinished.
    pub queue: Option<Arc<dyn WorkQueue>>,
    /// When a write returns: after the commit, or after its entries are applied.
    pub acknowledge: Acknowledge,
    /// When a write deletes its journal row and its ticket: after it returns, in the background (the default), or before. Call
    /// [`flush`](crate::Table::flush) before a program ends.
    pub clearing: Clearing,
    /// The blob store for long lists, below `{table}-{id}/{index}/`. The id is generated when the table is first opened with a blob store,
    /// and the manifest keeps it. So tables of one name in several stores can share a blob store. A copy of a table with its manifest
    /// has the same id: give the copy another blob store.
    #[cfg(feature = "blobs")]
    pub blobs: Option<Arc<dyn ObjectStore>>,
    /// Parallel requests of one call that follows references, merges partitions or checks entries, and of one write that reserves
    /// unique values or writes entries in several places.
    pub concurrency: usize,
    /// Indexes that stay absent in a new table, to be built after the table is loaded: writes do not maintain them until then.
    /// Unique indexes are refused here: no entity can have a value of them before the build.
    pub built_later: Vec<String>,
}

impl Default for IndexOptions {
    /// States cached for 30 seconds, 10 attempts, no queue, writes return after their entries are applied and clear their journal
    /// rows after that, 16 parallel requests, every index from the start.
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            cache: Duration::from_secs(30),
            attempts: 10,
            queue: None,
            acknowledge: Acknowledge::Applied,
            clearing: Clearing::AfterAnswer,
            #[cfg(feature = "blobs")]
            blobs: None,
            concurrency: 16,
            built_later: Vec::new(),
        }
    }
}

impl IndexOptions {
    /// Whether lists can be in blobs. A build without the feature `blobs` has no blob store.
    #[cfg_attr(
        not(feature = "blobs"),
        expect(clippy::unused_self, reason = "it has no blob store")
    )]
    pub(crate) const fn has_blobs(&self) -> bool {
        #[cfg(feature = "blobs")]
        return self.blobs.is_some();
        #[cfg(not(feature = "blobs"))]
        false
    }

    /// Short durations, for a store in this process. Such a store executes a dropped request before any later
    /// request, or never, so recovery need not wait minutes. (Changes of state do not wait for durations
    /// there.) Leases of 1 second, requests of 250 milliseconds, states cached for 100 milliseconds. Not for a
    /// service: a write there takes longer than the cache time, and is refused with advice.
    ///
    /// Recovery waits for leases, and a lease is four requests or more: so requests are short here. On a slow disk or a busy machine a request
    /// can take longer, and the write that sent it fails: give `timing` requests of some seconds there, and `cache` a quarter of these.
    ///
    /// # Panics
    /// Never: the durations are consistent.
    pub fn local() -> Self {
        let timing = Timing::new(
            Duration::from_secs(1),
            Duration::from_millis(250),
            Duration::ZERO,
        );
        let timing = timing.expect("a lease of four requests is long enough");
        Self {
            timing,
            cache: Duration::from_millis(100),
            ..Self::default()
        }
    }

    /// Sets whether a write clears its journal row and its ticket before it returns, or after that in the background.
    #[must_use]
    pub const fn with_clearing(mut self, clearing: Clearing) -> Self {
        self.clearing = clearing;
        self
    }

    /// Whether an index is left to a later build.
    pub(crate) fn builds_later(&self, index: &Index) -> bool {
        self.built_later.iter().any(|name| name == index.name())
    }

    /// The durations that the process registers in the manifest.
    pub(crate) const fn durations(&self) -> Durations {
        Durations {
            cache: self.cache,
            request: self.timing.request(),
            lease: self.timing.lease(),
        }
    }

    /// Refuses durations with which no write could succeed.
    pub(crate) fn check(&self) -> Result<()> {
        let (cache, client) = (self.cache, self.timing.client());
        if cache > LONGEST_LEASE {
            return Err(Error::invalid_argument(format!(
                "`IndexOptions::cache` is {cache:?}, and no process waits longer than {LONGEST_LEASE:?} for another: lower it"
            )));
        }
        if !cache.is_zero() && cache >= client / 4 {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "`IndexOptions::cache` is {cache:?} and the time limit of a request is {client:?}: the states of indexes expire before a write \
             commits; set `IndexOptions::cache` to a quarter of the time limit or more, or lower the limit in `IndexOptions::timing`"
        )))
    }
}
