//! Reads of entries alone: the payload, without following references.

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
    /// A page of payloads. 1 request, and 1 for each reservation in the page.
    pub(super) async fn page_of_payloads(
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

    /// The payload of the entry with this key. 1 request.
    pub(super) async fn find_payload(&self, index: &str, key: &Key) -> Result<Option<Entity>> {
        let index = self.readable(index).await?;
        match self.entry_row(&index, key).await? {
            Some(entry) => self.held(&index, entry).await,
            None => Ok(None),
        }
    }

    /// The payload of an entry. A reservation proves nothing yet: its entity is read.
    async fn held(&self, index: &Index, entry: Entity) -> Result<Option<Entity>> {
        if is_pending(&entry) {
            return self.resolve(index, entry, Trust::Entity).await;
        }
        payload(index, entry).map(Some)
    }
}
