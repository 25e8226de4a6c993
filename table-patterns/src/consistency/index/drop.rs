//! Removing indexes: those of this program, and those that only the manifest knows.

use table_core::manifest::{IndexState, StoredIndex};
use table_core::store::{Error, LocalPermit, Result};
use tokio::time::Instant;

use super::build::IndexBuild;
use super::definition::Index;
use super::indexed::IndexedEntities;
use super::set::Asked;
use super::shared::is_conflict;
use super::waiting::{Waiting, WaitingFor};

impl IndexedEntities {
    /// Removes an index: its entries, then its row in the manifest. By a name, the generation that this program defines, or the
    /// only one there is; by an [id](Index::id), any, whichever program or type has declared it, and whether or not this program can
    /// maintain it. Writers maintain it less and less:
    /// write-only, delete-only, absent. While a program defines a unique index that is absent, it refuses to give
    /// entities values of it: leave it out of the definitions too. Run again, it goes on where it was; several programs may run it.
    ///
    /// Cost: the pages of the index (of the whole table, if its entries are in the entities' table: a page holds
    /// what is found, and a service may answer in more of them) and one group per 100 entries of a partition in each (a request per row
    /// of lists, summaries and copies), three per change of state, and one for each
    /// [`IndexOptions::cache`](super::IndexOptions::cache) that it takes. It waits at each change of state as a
    /// [build](IndexBuild) does, and for a builder that is at work.
    ///
    /// # Errors
    /// The index is unknown, or several of this name are not this program's; the storage's.
    pub async fn drop_index(&self, index: &str) -> Result<()> {
        self.drop_index_with(index, |_| ()).await
    }

    /// The same, and says what it is waiting for, and until when at most.
    ///
    /// # Errors
    /// As for [`drop_index`](Self::drop_index).
    pub async fn drop_index_with(&self, index: &str, mut on_wait: impl FnMut(Waiting) + Send) -> Result<()> {
        self.set.check_writes()?;
        self.refresh().await?;
        let id = match self.set.find(index) {
            Ok(found) => found.id().to_owned(),
            // One that this program cannot maintain can go all the same.
            Err(error) => match self.rows().index(index).await? {
                Some(stored) => stored.id(),
                None => return Err(error),
            },
        };
        self.remove(&id, |_| true, &mut on_wait).await?;
        self.refresh().await
    }

    /// Goes on with a removal that another process has begun; whether it was this one that ended it. One that has ended, and
    /// whose index is built again, is left alone.
    pub(crate) async fn finish_drop(&self, id: &str) -> Result<bool> {
        self.set.check_writes()?;
        let removed = self.remove(id, StoredIndex::is_leaving, &mut |_| {}).await?;
        self.refresh().await.map(|()| removed)
    }

    /// Removes an index, whatever is there of it, and prepares its build: what a program does that does not
    /// trust an index any more. Its lookups are refused until the build has run, and other indexes are not
    /// touched. After a crash [`build`](Self::build) goes on with the build, and this starts it over.
    ///
    /// Until a unique index is built again, writes that give an entity a value of it are refused.
    ///
    /// An index whose *definition* has changed is another generation, which is [built](Self::build) beside the earlier one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::TableStore;
    /// use table_patterns::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let table = TableName::new("People")?;
    /// # store.create_table(&table).await?;
    /// let by_city = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
    /// let people = IndexedEntities::open(store, table, vec![by_city], IndexOptions::local()).await?;
    /// people.insert(Entity::new("p", "1")?.with("City", "oslo")).await?;
    /// let built = people.rebuild("city").await?.run().await?;
    /// assert_eq!((built.entries, people.state("city")), (1, IndexState::Readable));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`drop_index`](Self::drop_index).
    pub async fn rebuild(&self, index: &str) -> Result<IndexBuild<'_>> {
        self.drop_index(index).await?;
        self.build(index)
    }

    /// Removes a generation of an index by what the manifest says of it, as long as that is to go; whether nobody else was
    /// quicker.
    async fn remove(
        &self,
        id: &str,
        is_to_go: impl Fn(&StoredIndex) -> bool + Send,
        on_wait: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<bool> {
        let mut settled = false;
        while let Some(mut stored) = self.rows().index(id).await?.filter(|stored| is_to_go(stored)) {
            // What a build has left delete-only is marked too: nobody goes on with the build.
            let unmarked = (!stored.is_leaving()).then_some(IndexState::DeleteOnly);
            if let Some(next) = before(stored.state).or(unmarked) {
                settled = self.step_down(&mut stored, next, on_wait).await?;
                continue;
            }
            if !settled {
                // Whoever has set the state may have died before writers knew of it.
                self.let_states_settle(WaitingFor::State(stored.state), on_wait).await?;
                settled = true;
                continue;
            }
            self.remove_rows(&stored, on_wait).await?;
            match self.rows().remove(&stored).await {
                Err(error) if is_conflict(&error) => {}
                other => return other.map(|()| true),
            }
        }
        Ok(false)
    }

    /// Whether the state was changed by this program, and every writer knows.
    async fn step_down(
        &self,
        stored: &mut StoredIndex,
        next: IndexState,
        on_wait: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<bool> {
        let was_building = stored.state == IndexState::Building;
        let leaving = Some(StoredIndex::LEAVING.to_owned());
        match self.rows().advance(stored, next, leaving).await {
            Err(error) if is_conflict(&error) => return Ok(false),
            other => other?,
        }
        self.let_states_settle(WaitingFor::State(next), on_wait).await?;
        if was_building {
            let lease = self.set.slowest().durations.lease;
            self.let_builder_end(&stored.id(), lease, on_wait).await;
        }
        Ok(true)
    }

    async fn remove_rows(
        &self,
        stored: &StoredIndex,
        on_wait: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<()> {
        let id = stored.id();
        let shape = stored.shape.clone().ok_or_else(|| {
            Error::invalid_request(format!(
                "the index '{id}' keeps its entries in a way that this program does not know: drop it by a newer one"
            ))
        })?;
        let index = Index::of_rows(&id, stored.table.as_ref(), shape);
        let (set, until) = (&self.set, Instant::now());
        let mut removal =
            Removal { entities: self, index, stored, asked: set.asked(), until, permit: set.permit() };
        if removal.index.shape().is_shared() {
            removal.shared(on_wait).await
        } else {
            removal.entries().await
        }
    }
}

/// The rows of an index, on their way out.
pub(super) struct Removal<'a> {
    pub(super) entities: &'a IndexedEntities,
    /// Where the rows are and how they are told, without their keys.
    pub(super) index: Index,
    pub(super) stored: &'a StoredIndex,
    /// When the manifest was last asked.
    pub(super) asked: Asked,
    /// Until when nobody can have built the index again, if no state has changed in this process since it was asked.
    pub(super) until: Instant,
    /// What who builds the index again in this process waits for.
    pub(super) permit: Option<LocalPermit>,
}

const fn before(state: IndexState) -> Option<IndexState> {
    match state {
        IndexState::Readable | IndexState::Building => Some(IndexState::WriteOnly),
        IndexState::WriteOnly => Some(IndexState::DeleteOnly),
        IndexState::DeleteOnly | IndexState::Absent => None,
    }
}
