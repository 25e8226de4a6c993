//! Reading several partitions of an index at once, merged in the order of their entries.

use std::collections::VecDeque;

use futures_util::future::try_join_all;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, RowKey};
use table_core::query::{Continuation, Page};
use table_core::store::{Error, Result};

use super::indexed::IndexedEntities;
use super::lookup::{IndexQuery, Trust};

/// Entities read at once in each partition when references are followed.
const IN_PARALLEL: usize = 16;

/// A partition that is being read.
struct Part {
    query: IndexQuery,
    ready: VecDeque<(RowKey, Entity)>,
    from: Option<Continuation>,
    done: bool,
}

impl IndexedEntities {
    /// The entities of several partitions of an index, all together in the order of their entries' RowKeys:
    /// a range over [`Shards`](super::Shards). The query says which row keys; its own partition is not
    /// asked.
    ///
    /// Cost: that of [`page`](Self::page) for each partition, all at once; a page ahead of what is read.
    ///
    /// # Errors
    /// In the stream: the index is unknown, not readable, or keeps no rows; the storage's.
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
        stream::try_unfold(parts, move |mut parts| async move {
            try_join_all(parts.iter_mut().map(|part| self.read_ahead(index, part, trust))).await?;
            let heads = parts.iter().enumerate().filter_map(|(n, part)| Some((&part.ready.front()?.0, n)));
            let Some(first) = heads.min().map(|(_, n)| n) else { return Ok(None) };
            let next = parts[first].ready.pop_front();
            Ok(next.map(|(_, entity)| (entity, parts)))
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
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
    ) -> Result<Page<(RowKey, Entity)>> {
        let index = self.readable(index).await?;
        if index.shape().is_shared() {
            let reason = format!("the index '{}' is a {}, not rows", index.name(), index.shape());
            return Err(Error::invalid_request(reason));
        }
        let page = self.store().query(&self.index_table(index), &query.to_query(index), from).await?;
        let resolved = stream::iter(page.items).map(|entry| async move {
            let row = entry.key().row_key();
            Ok::<_, Error>(self.resolve(index, entry, trust).await?.map(|entity| (row, entity)))
        });
        let items = resolved.buffered(IN_PARALLEL).try_filter_map(|found| async move { Ok(found) });
        Ok(Page { items: items.try_collect().await?, continuation: page.continuation })
    }

    async fn read_ahead(&self, index: &str, part: &mut Part, trust: Trust) -> Result<()> {
        while part.ready.is_empty() && !part.done {
            let page = self.rows_page(index, &part.query, part.from.as_ref(), trust).await?;
            part.ready.extend(page.items);
            part.from = page.continuation;
            part.done = part.from.is_none();
        }
        Ok(())
    }
}
