//! Reading several partitions of an index at once, merged in the order of their entries.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::try_join_all;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, RowKey};
use table_core::query::{Continuation, Page};
use table_core::store::{Error, Result};
use tokio::sync::Semaphore;

use super::definition::Index;
use super::indexed::IndexedEntities;
use super::lookup::Trust;
use super::query::IndexQuery;
use super::resolve::Readable;

/// A partition that is being read.
struct Part {
    query: IndexQuery,
    ready: VecDeque<(RowKey, Entity)>,
    from: Option<Continuation>,
    done: bool,
}

impl Part {
    /// Whether more of it must be read before its next entity is known.
    fn is_dry(&self) -> bool {
        self.ready.is_empty() && !self.done
    }
}

impl IndexedEntities {
    /// The entities of several partitions of an index, all together in the order of their entries' RowKeys:
    /// a range over [`Shards`](super::Shards). The query says which row keys; its own partition is not
    /// asked.
    ///
    /// Cost: that of [`page`](Self::page) for each partition, a page ahead of what is read. Of all partitions
    /// together, as many requests are under way as [`IndexOptions::concurrency`](super::IndexOptions) says.
    ///
    /// # Errors
    /// In the stream: the index is unknown, not readable, or keeps no rows; the store does not sort, and the query
    /// does not ask for [`sorted_on_client`](IndexQuery::sorted_on_client); the storage's.
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
        let (places, sorts) = (Arc::new(Semaphore::new(self.at_once())), query.sorts());
        stream::try_unfold((parts, places), move |(mut parts, places)| async move {
            self.check_order(sorts)?;
            if parts.iter().any(Part::is_dry) {
                let index = self.rows_index(index).await?;
                let ahead = parts.iter_mut().map(|part| self.read_ahead(&index, part, trust, &places));
                try_join_all(ahead).await?;
            }
            let heads = parts.iter().enumerate().filter_map(|(n, part)| Some((&part.ready.front()?.0, n)));
            let Some(first) = heads.min().map(|(_, n)| n) else { return Ok(None) };
            let next = parts[first].ready.pop_front();
            Ok(next.map(|(_, entity)| (entity, (parts, places))))
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
        places: &Semaphore,
    ) -> Result<Page<(RowKey, Entity)>> {
        let page = {
            let _place = places.acquire().await.ok();
            self.read_rows(index, &part.query, part.from.as_ref()).await?
        };
        let resolved = stream::iter(page.items).map(|entry| async move {
            let row = entry.key().row_key();
            let _place = places.acquire().await.ok();
            Ok::<_, Error>(self.resolve(index, entry, trust).await?.map(|entity| (row, entity)))
        });
        let resolved = resolved.buffered(self.at_once());
        let items = resolved.try_filter_map(|found| async move { Ok(found) });
        Ok(Page { items: items.try_collect().await?, continuation: page.continuation })
    }

    /// A readable index that keeps rows.
    async fn rows_index(&self, index: &str) -> Result<Readable> {
        let index = self.readable(index).await?;
        if index.shape().is_shared() {
            let reason = format!("the index '{}' is a {}, not rows", index.name(), index.shape());
            return Err(Error::invalid_request(reason));
        }
        Ok(index)
    }

    async fn read_ahead(
        &self,
        index: &Index,
        part: &mut Part,
        trust: Trust,
        places: &Semaphore,
    ) -> Result<()> {
        while part.is_dry() {
            let page = self.rows_page(index, part, trust, places).await?;
            part.ready.extend(page.items);
            part.from = page.continuation;
            part.done = part.from.is_none();
        }
        Ok(())
    }
}
