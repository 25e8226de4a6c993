use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use table_core::queue::WorkQueue;
use table_core::store::{Error, Result};

use crate::journal::{Acknowledge, Timing};

/// How an [`IndexedEntities`](super::IndexedEntities) behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexOptions {
    /// The durations of the cross-partition protocol.
    pub timing: Timing,
    /// For how long the states of indexes may be cached; a change of state waits this long, and the
    /// longest life of a request: the longest of any process that is registered in the table's manifest. In a
    /// store that only this process writes ([`local_writers`](table_core::store::TableStore::local_writers)) it waits for what is under way instead, and
    /// those who have read older states read them again. A write reads states that
    /// hold for less than a quarter of it anew, and sends its tickets and reservations before it commits by them: at
    /// least a quarter of the time that a request is given, and a dozen times what one takes.
    pub cache: Duration,
    /// How often a read-modify-write is tried when others write the same entity.
    pub attempts: u32,
    /// Where tickets go; without a queue a sweep finds what crashes leave.
    pub queue: Option<Arc<dyn WorkQueue>>,
    /// When writes answer.
    pub acknowledge: Acknowledge,
    /// Where lists are kept that an index puts into blobs, below `{table}-{id}/{index}/`. The id is drawn when the
    /// table is first opened with a store of blobs, and is in its manifest: tables of one name in several stores can
    /// share a store of blobs. A copy of a table with its manifest has the id too: give it blobs of its own.
    pub blobs: Option<Arc<dyn ObjectStore>>,
    /// Requests at once when references are followed, partitions are merged, and entries are checked.
    pub concurrency: usize,
    /// Indexes that are left absent in a new table, to be built once it is loaded: writes do not maintain
    /// them until then. Not unique ones: no entity can get a value of those before.
    pub built_later: Vec<String>,
}

impl Default for IndexOptions {
    /// States cached for 30 seconds, 10 attempts, no queue, an answer when entries are in step, 16
    /// reads at once, every index from the start.
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            cache: Duration::from_secs(30),
            attempts: 10,
            queue: None,
            acknowledge: Acknowledge::Applied,
            blobs: None,
            concurrency: 16,
            built_later: Vec::new(),
        }
    }
}

impl IndexOptions {
    /// Short durations, for a store in this process: what is dropped there is done before anything that is
    /// asked for later, or never, so that recovery need not wait minutes (changes of state do not in any case). Leases of a
    /// second, a quarter of it for a request, states cached for a tenth. Not for a service, where a write takes longer
    /// than states are cached: it is refused then, with what to do.
    ///
    /// # Panics
    /// Never: the durations are consistent.
    pub fn local() -> Self {
        let timing = Timing::new(Duration::from_secs(1), Duration::from_millis(250), Duration::ZERO);
        let timing = timing.expect("a lease of four requests is long enough");
        Self { timing, cache: Duration::from_millis(100), ..Self::default() }
    }

    /// Refuses durations by which no write could be relied on.
    pub(crate) fn check(&self) -> Result<()> {
        let (cache, client) = (self.cache, self.timing.client());
        if !cache.is_zero() && cache >= client / 4 {
            return Ok(());
        }
        Err(Error::invalid_request(format!(
            "states of indexes cached for {cache:?} are too old before a write commits by them, where a request is \
             given {client:?}: let `IndexOptions::cache` be at least a quarter of that, or give requests less \
             time by `IndexOptions::timing`"
        )))
    }
}
