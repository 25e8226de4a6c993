//! Entities as their entries show them, nothing followed.

use table_core::model::{Entity, Key};
use table_core::query::{Continuation, Page};
use table_core::store::Result;

use super::definition::Index;
use super::indexed::IndexedEntities;
use super::lookup::Trust;
use super::query::IndexQuery;
use super::resolve::payload;
use crate::journal::is_pending;

impl IndexedEntities {
    /// A page of what entries hold. One request, and one for each reservation among them.
    pub(super) async fn page_held(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let index = self.readable(index).await?;
        let page = self.read_rows(&index, query, from).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for entry in page.items {
            items.extend(self.held(&index, entry).await?);
        }
        Ok(Page { items, continuation: page.continuation })
    }

    /// What the entry with this key holds. One request.
    pub(super) async fn find_held(&self, index: &str, key: &Key) -> Result<Option<Entity>> {
        let index = self.readable(index).await?;
        match self.entry_row(&index, key).await? {
            Some(entry) => self.held(&index, entry).await,
            None => Ok(None),
        }
    }

    /// A reservation is no fact yet: the entity tells.
    async fn held(&self, index: &Index, entry: Entity) -> Result<Option<Entity>> {
        if is_pending(&entry) {
            return self.resolve(index, entry, Trust::Entity).await;
        }
        payload(index, entry).map(Some)
    }
}
