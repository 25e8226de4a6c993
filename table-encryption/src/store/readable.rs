//! Pages of what can be read.

use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Query};
use table_core::store::{Error, Result, TableStore};

use super::{EncryptedStore, Opener, filter};

/// A page of the entities that can be read, with those that cannot.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReadablePage {
    /// The entities that can be read, in their order.
    pub items: Vec<Entity>,
    /// The entities that cannot.
    pub unreadable: Vec<UnreadableEntity>,
    /// Where the next page starts; `None` at the end.
    pub continuation: Option<Continuation>,
}

/// An entity that cannot be decrypted, or has plaintext where it must not.
#[derive(Clone, Debug)]
pub struct UnreadableEntity {
    /// Its key.
    pub key: Key,
    /// Why.
    pub error: Error,
}

impl<S: TableStore> EncryptedStore<S> {
    /// A page of a query, without the entities that cannot be decrypted: they are listed beside the others. One request.
    ///
    /// [`query`](TableStore::query) refuses the whole page if one entity in it is damaged, was planted, or is under a key that
    /// is not here. Here the others are read: to find out how much is damaged, or to serve what is sound. An entity that
    /// is missing from `items` may still exist.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::query::Query;
    /// # use table_core::store::{Operation, TableStore};
    /// # use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, Keys};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let kek = AesKeyWrap::new("kek-2026", &KeyBytes::random(32)?)?;
    /// # let raw = Arc::new(MemoryStore::new());
    /// # let store = EncryptedStore::new(Arc::clone(&raw), Keys::new(Arc::new(kek)))?;
    /// # let people = TableName::new("People")?;
    /// # store.create_table(&people).await?;
    /// store.write(&people, Operation::Insert(Entity::new("Sales", "1")?.with_encrypted("Iban", "CH93"))).await?;
    /// raw.write(&people, Operation::Insert(Entity::new("Sales", "2")?.with("_EncryptionHeader", "garbage"))).await?;
    ///
    /// let page = store.query_readable(&people, &Query::new(), None).await?;
    /// assert_eq!((page.items.len(), page.unreadable.len()), (1, 1));
    /// assert_eq!(page.unreadable[0].key.row(), "2");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The wrapped store's; the key service is busy or unreachable; the filter compares what is encrypted; the answer has
    /// entities that the query cannot match.
    pub async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let opener = self.opener_of(table, query)?;
        let page = self.fetch_page(&opener, query, from).await?;
        opener.reveal_readable(page).await
    }

    /// Decrypts the pages of a query, if it can be asked.
    pub(super) fn opener_of<'a>(&'a self, table: &'a TableName, query: &'a Query) -> Result<Opener<'a>> {
        let compared = filter::compared(query.filter.as_ref());
        let opener = Opener { compared, ..self.opener(table, query.select.as_ref()) };
        opener.check_filter().map(|()| opener)
    }
}
