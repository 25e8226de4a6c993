//! Pages and streams of the entities of an index, whatever the shape of its rows.

use futures_util::{Stream, TryStreamExt as _, stream};
use table_core::model::Entity;
use table_core::query::{Continuation, Page, ReadablePage};
use table_core::store::{CycleDetector, Error, Result};

use super::entries::{Lookups, check_leads_to_entities};
use super::lists::Lists;
use super::query::{IndexQuery, Trust};

/// Reads the entities of an index in pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages<'a> {
    pub(crate) lookups: Lookups<'a>,
}

impl<'a> Pages<'a> {
    /// As [`IndexedEntities::page`](crate::index::IndexedEntities::page); follows references until there are `limit` entities. The remaining rows of
    /// the page are skipped, because the continuation is that of the whole page. So a page of the query has at most `limit` rows
    /// ([`IndexQuery::top`]), or the caller needs no more than `limit` entities.
    pub(crate) async fn page(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
        limit: usize,
    ) -> Result<Page<Entity>> {
        self.readable_page(index, query, from, trust, limit)
            .await?
            .into_page()
    }

    /// As [`page`](Self::page), with a list of the entities and entries that cannot be read.
    pub(crate) async fn readable_page(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
        limit: usize,
    ) -> Result<ReadablePage> {
        let index = self.lookups.readable(index).await?;
        check_leads_to_entities(&index)?;
        match index.shape().is_list() {
            true => {
                Lists {
                    lookups: self.lookups,
                }
                .page_of_lists(&index, query, from, limit)
                .await
            }
            false => {
                self.lookups
                    .page_of_entries(&index, query, from, trust, limit)
                    .await
            }
        }
    }

    /// See [`IndexedEntities::stream`](crate::index::IndexedEntities::stream).
    pub(crate) fn stream(
        self,
        index: &'a str,
        query: &IndexQuery,
        trust: Trust,
    ) -> impl Stream<Item = Result<Entity>> + Send + use<'a> {
        let start = Some((query.clone(), None, CycleDetector::default()));
        let pages = stream::try_unfold(start, move |at| async move {
            let Some((query, from, mut cycles)) = at else {
                return Ok::<_, Error>(None);
            };
            let page = self
                .page(index, &query, from.as_ref(), trust, usize::MAX)
                .await?;
            page.continuation
                .iter()
                .try_for_each(|next| cycles.add(next, page.items.len()))?;
            let next = page.continuation.map(|from| (query, Some(from), cycles));
            Ok(Some((stream::iter(page.items.into_iter().map(Ok)), next)))
        });
        pages.try_flatten()
    }
}
