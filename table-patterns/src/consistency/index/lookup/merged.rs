//! Reads several partitions of an index in parallel and merges them in the order of their entries.

use std::collections::VecDeque;

use futures_util::future::try_join_all;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, RowKey};
use table_core::query::{Continuation, Page};
use table_core::store::{CycleDetector, Error, Result};
use tokio::sync::Semaphore;

use super::entries::{Lookups, Readable};
use super::query::{IndexQuery, Trust};
use crate::entry::Index;

/// A partition under a merged read.
struct Part {
    query: IndexQuery,
    ready: VecDeque<(RowKey, Entity)>,
    from: Option<Continuation>,
    cycles: CycleDetector,
    done: bool,
}

impl Part {
    /// Whether the next entity is unknown until more is read.
    fn needs_page(&self) -> bool {
        self.ready.is_empty() && !self.done
    }
}

/// A lookup in several partitions of an index.
#[derive(Clone, Debug)]
pub(crate) struct MergedLookup<'a> {
    pub(crate) lookups: Lookups<'a>,
    pub(crate) index: &'a str,
    pub(crate) trust: Trust,
}

impl<'a> MergedLookup<'a> {
    /// See [`IndexedEntities::merged`](crate::index::IndexedEntities::merged).
    pub(crate) fn stream(
        self,
        partitions: &[String],
        query: &IndexQuery,
    ) -> impl Stream<Item = Result<Entity>> + Send + use<'a> {
        let part = |partition: &String| Part {
            query: query.clone().in_partition(partition),
            ready: VecDeque::new(),
            from: None,
            cycles: CycleDetector::default(),
            done: false,
        };
        let parts: Vec<_> = partitions.iter().map(part).collect();
        // All partitions share the permits, so their number does not multiply the requests under way.
        let (permits, sorts) = (Semaphore::new(self.lookups.rows.concurrency), query.sorts());
        stream::try_unfold(
            (self, parts, permits),
            move |(this, mut parts, permits)| async move {
                this.lookups.check_order(sorts)?;
                // The next entity is the smallest of the first entities of the partitions, so each partition that has not ended needs one.
                if parts.iter().any(Part::needs_page) {
                    let index = this.rows_index().await?;
                    let ahead = parts
                        .iter_mut()
                        .map(|part| this.read_ahead(&index, part, &permits));
                    try_join_all(ahead).await?;
                }
                // At equal row keys the partition that the caller has named first comes first.
                let fronts = parts
                    .iter()
                    .enumerate()
                    .filter_map(|(n, part)| Some((&part.ready.front()?.0, n)));
                let Some(first) = fronts.min().map(|(_, n)| n) else {
                    return Ok(None);
                };
                let next = parts[first].ready.pop_front();
                Ok(next.map(|(_, entity)| (entity, (this, parts, permits))))
            },
        )
    }

    /// A page of entities, with the row keys of their entries.
    async fn page(
        &self,
        index: &Index,
        part: &Part,
        permits: &Semaphore,
    ) -> Result<Page<(RowKey, Entity)>> {
        let Self { lookups, trust, .. } = self;
        let page = {
            let _permit = permits.acquire().await.ok();
            lookups
                .read_rows(index, &part.query, part.from.as_ref())
                .await?
                .into_page()?
        };
        let resolved = stream::iter(page.items).map(|entry| async move {
            let row = entry.key().row_key();
            let _permit = permits.acquire().await.ok();
            Ok::<_, Error>(
                lookups
                    .resolve(index, entry, *trust)
                    .await?
                    .map(|entity| (row, entity)),
            )
        });
        let resolved = resolved.buffered(lookups.rows.concurrency);
        let items = resolved.try_filter_map(|found| async move { Ok(found) });
        Ok(Page {
            items: items.try_collect().await?,
            continuation: page.continuation,
        })
    }

    /// The index, if it is readable and has a row for each entry.
    async fn rows_index(&self) -> Result<Readable> {
        let index = self.lookups.readable(self.index).await?;
        if index.shape().is_shared() {
            let reason = format!(
                "the index '{}' has the shape {}, not row: a merged read needs a row for each entry",
                index.name(),
                index.shape()
            );
            return Err(Error::misuse(reason));
        }
        Ok(index)
    }

    /// Reads pages of a partition until it has an entity that is ready, or ends.
    async fn read_ahead(&self, index: &Index, part: &mut Part, permits: &Semaphore) -> Result<()> {
        while part.needs_page() {
            let page = self.page(index, part, permits).await?;
            page.continuation
                .iter()
                .try_for_each(|next| part.cycles.add(next, page.items.len()))?;
            part.ready.extend(page.items);
            part.from = page.continuation;
            part.done = part.from.is_none();
        }
        Ok(())
    }
}
