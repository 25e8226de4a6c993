//! Reads several partitions of an index in parallel and merges them in the order of their entries.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::try_join_all;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, RowKey};
use table_core::query::{Continuation, Page};
use table_core::store::{Error, Result};
use tokio::sync::Semaphore;

use super::entries::{IndexQuery, Readable};
use super::lookup::Trust;
use crate::entry::Index;
use crate::index::handle::IndexedEntities;

/// A partition under a merged read.
struct Part {
    query: IndexQuery,
    ready: VecDeque<(RowKey, Entity)>,
    from: Option<Continuation>,
    done: bool,
}

impl Part {
    /// Whether the next entity is unknown until more is read.
    fn needs_page(&self) -> bool {
        self.ready.is_empty() && !self.done
    }
}

impl IndexedEntities {
    /// The entities of several partitions of an index, merged in the order of their entries' RowKeys: a range
    /// over [`Shards`](crate::index::Shards). The query restricts the row keys; its own partition is ignored.
    ///
    /// Cost: the requests of [`page`](Self::page) for each partition, one page ahead of the consumer. All
    /// partitions together send [`IndexOptions::concurrency`](crate::index::IndexOptions) requests in parallel.
    ///
    /// # Errors
    /// In the stream: the index is unknown, not readable, or keeps no rows; the store does not sort, and the
    /// query does not have [`sorted_on_client`](IndexQuery::sorted_on_client); an error of the store.
    pub fn merged<'a>(
        &'a self,
        index: &'a str,
        partitions: &[String],
        query: &IndexQuery,
        trust: Trust,
    ) -> impl Stream<Item = Result<Entity>> + Send + 'a {
        let part = |partition: &String| Part {
            query: query.clone().in_partition(partition),
            ready: VecDeque::new(),
            from: None,
            done: false,
        };
        let parts: Vec<_> = partitions.iter().map(part).collect();
        let (permits, sorts) = (Arc::new(Semaphore::new(self.at_once())), query.sorts());
        stream::try_unfold((parts, permits), move |(mut parts, permits)| async move {
            self.check_order(sorts)?;
            if parts.iter().any(Part::needs_page) {
                let index = self.rows_index(index).await?;
                let ahead = parts.iter_mut().map(|part| self.read_ahead(&index, part, trust, &permits));
                try_join_all(ahead).await?;
            }
            let heads = parts.iter().enumerate().filter_map(|(n, part)| Some((&part.ready.front()?.0, n)));
            let Some(first) = heads.min().map(|(_, n)| n) else { return Ok(None) };
            let next = parts[first].ready.pop_front();
            Ok(next.map(|(_, entity)| (entity, (parts, permits))))
        })
    }

    /// All of [`merged`](Self::merged), collected.
    ///
    /// # Errors
    /// As for [`merged`](Self::merged).
    pub async fn all_merged(
        &self,
        index: &str,
        partitions: &[String],
        query: &IndexQuery,
        trust: Trust,
    ) -> Result<Vec<Entity>> {
        self.merged(index, partitions, query, trust).try_collect().await
    }

    /// A page of entities, with the row keys of their entries.
    async fn rows_page(
        &self,
        index: &Index,
        part: &Part,
        trust: Trust,
        permits: &Semaphore,
    ) -> Result<Page<(RowKey, Entity)>> {
        let page = {
            let _permit = permits.acquire().await.ok();
            self.read_rows(index, &part.query, part.from.as_ref()).await?
        };
        let resolved = stream::iter(page.items).map(|entry| async move {
            let row = entry.key().row_key();
            let _permit = permits.acquire().await.ok();
            Ok::<_, Error>(self.resolve(index, entry, trust).await?.map(|entity| (row, entity)))
        });
        let resolved = resolved.buffered(self.at_once());
        let items = resolved.try_filter_map(|found| async move { Ok(found) });
        Ok(Page { items: items.try_collect().await?, continuation: page.continuation })
    }

    /// A readable index with a row for each entry.
    async fn rows_index(&self, index: &str) -> Result<Readable> {
        let index = self.readable(index).await?;
        if index.shape().is_shared() {
            let reason = format!(
                "the index '{}' has the shape {}, not row: a merged read needs a row for each entry",
                index.name(),
                index.shape()
            );
            return Err(Error::invalid_request(reason));
        }
        Ok(index)
    }

    async fn read_ahead(
        &self,
        index: &Index,
        part: &mut Part,
        trust: Trust,
        permits: &Semaphore,
    ) -> Result<()> {
        while part.needs_page() {
            let page = self.rows_page(index, part, trust, permits).await?;
            part.ready.extend(page.items);
            part.from = page.continuation;
            part.done = part.from.is_none();
        }
        Ok(())
    }
}
