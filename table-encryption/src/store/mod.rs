//! The store that encrypts.

mod builder;
mod conceal;
mod describe;
mod filter;
mod group;
mod merge;
mod reveal;
mod rules;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
pub use builder::EncryptedStoreBuilder;
pub(crate) use conceal::conceal;
pub use describe::Description;
pub(crate) use merge::Pauses;
pub(crate) use reveal::{Failure, Opener, Stored, is_service_error};
use rules::Rules;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{
    EncryptedNames, GroupTransaction, LocalWriters, Operation, Result, ServiceProfile, TableStore, Written,
    check_entity, check_page,
};

use crate::data_key::DataKeys;
use crate::v1::Legacy;
use crate::{BlobCipher, Keys};

/// A store that encrypts marked properties before they leave, and decrypts what it reads.
///
/// Which properties: those with the mark (`#[encrypt]` in a derived type, [`Entity::with_encrypted`]), and those that
/// the rules of the [builder](EncryptedStoreBuilder) name. What is decrypted comes back marked, so that writing it
/// again encrypts it again. `docs/encryption-format.md` says how, and against whom it protects.
///
/// Put it around the adapters: they then see ciphertext only.
///
/// ```
/// use std::sync::Arc;
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, TableName};
/// use table_core::store::{Operation, TableStore};
/// use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, Keys};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let kek = AesKeyWrap::new("kek-2026", &KeyBytes::random(32)?)?;
/// let raw = Arc::new(MemoryStore::new());
/// let store = EncryptedStore::new(Arc::clone(&raw), Keys::new(Arc::new(kek)))?;
///
/// let people = TableName::new("People")?;
/// store.create_table(&people).await?;
/// let ken = Entity::new("Sales", "empid_000223")?.with("Age", 41).with_encrypted("NationalId", "760519-1234");
/// store.write(&people, Operation::Insert(ken.clone())).await?;
///
/// assert_eq!(store.get(&people, ken.key(), None).await?.unwrap().properties(), ken.properties());
/// let stored = raw.get(&people, ken.key(), None).await?.unwrap();
/// assert!(!format!("{stored:?}").contains("760519"));
/// # Ok(())
/// # }
/// ```
///
/// # Cost in requests
/// | operation | requests to the wrapped store |
/// |---|---|
/// | get, query, delete, insert, replace, insert-or-replace, groups of them | as without encryption |
/// | merge, insert-or-merge, alone | 2, and 2 more when another writer comes between; 1 with an ETag that is refused |
/// | a group with `n` merges | `n` + 1, and as many more when another writer comes between |
/// | a projection | the same; the header comes with it |
///
/// The key service is asked once for each data key that is made or met, not for each entity.
///
/// # Merge
/// The service cannot merge into an authenticated list. A merge therefore reads: of an entity that gets no
/// encrypted property the header alone, to refuse plaintext over an encrypted one; otherwise the entity, whose
/// encrypted properties are encrypted again together. It writes under the ETag it read. An unconditional merge tries
/// again when others interfere, up to [`with_attempts`](EncryptedStoreBuilder::with_attempts).
///
/// # Errors
/// Beyond the wrapped store's: [`ErrorKind::Encryption`](table_core::store::ErrorKind::Encryption) where something cannot be decrypted, always
/// in the same words, or where plaintext is found in a property that a rule names or that other entities of the table have
/// encrypted; the same on writing; an answer with another entity than the one that was asked for
/// ([`ErrorKind::Service`](table_core::store::ErrorKind::Service)); limits that only the grown entity
/// exceeds; what [`KeyWrap`](crate::KeyWrap) passes through. One such entity fails its whole page:
/// [`query_readable`](TableStore::query_readable) reads the others.
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
/// assert!(store.query(&people, &Query::new(), None).await.is_err());
/// let found = store.query_readable(&people, &Query::new(), None).await?;
/// assert_eq!((found.page.items.len(), found.unreadable.len()), (1, 1));
/// assert_eq!(found.unreadable[0].key.row(), "2");
/// # Ok(())
/// # }
/// ```
///
/// # Filters
/// The service would compare ciphertext. Typed filters on `#[encrypt]` fields do not compile. By name, a filter is
/// refused before it is sent, if a rule names the property, a typed table of a type that encrypts it was opened over this store,
/// or this store has written or read it encrypted in the table. Otherwise the header of every entity that a filter finds is
/// looked at, also where keys alone are asked for: one that lists a compared name turns the answer into an error.
///
/// What remains: this store has not been told that `NationalId` is encrypted, and a filter does not *find* the encrypted
/// entities, as `NationalId eq '…'` does not. That looks like an empty answer. Rules make it certain
/// ([`encrypt`](EncryptedStoreBuilder::encrypt)), typed tables do, and so does
/// [`filter_only_by`](EncryptedStoreBuilder::filter_only_by), which refuses all names that are not declared. Equality is offered by a
/// [`BlindIndex`](crate::BlindIndex).
///
/// # Plaintext
/// What is read encrypted comes back marked, and the mark stays when another value is set
/// ([`Properties`](table_core::model::Properties)). A write that has a property in plaintext which this store knows, as above, to be
/// encrypted in the table is refused: mark it. A read that finds such a property in plaintext is refused too, since any
/// writer of the table can put plaintext in the place of ciphertext. Where entities of one table have the same name
/// encrypted and in plaintext, a rule by row says which ([`encrypt_where`](EncryptedStoreBuilder::encrypt_where)). What no rule
/// names, and this store has not met yet, is read as it is.
pub struct EncryptedStore<S> {
    inner: S,
    profile: ServiceProfile,
    pub(crate) shared: Arc<Shared>,
}

/// What does not depend on the wrapped store.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) keys: Arc<DataKeys>,
    pub(crate) rules: Rules,
    pub(crate) legacy: Option<Legacy>,
    pub(crate) attempts: u32,
}

impl<S: TableStore> EncryptedStore<S> {
    /// Encrypts marked properties on `store`, with defaults for everything else.
    ///
    /// # Errors
    /// A key id or algorithm does not fit the header.
    pub fn new(store: S, keys: Keys) -> Result<Self> {
        Self::builder(store, keys).build()
    }

    /// Encrypts on `store` by the rules that the builder is given.
    pub fn builder(store: S, keys: Keys) -> EncryptedStoreBuilder<S> {
        EncryptedStoreBuilder::new(store, keys)
    }

    fn from_parts(inner: S, shared: Shared) -> Self {
        let profile = inner.profile().clone().with_encryption();
        Self { inner, profile, shared: Arc::new(shared) }
    }

    /// The wrapped store: what it returns is ciphertext, what is written to it is not encrypted.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// A cipher for blobs under the same keys.
    pub fn blob_cipher(&self) -> BlobCipher {
        BlobCipher::new(Arc::clone(&self.shared.keys), self.profile.case_sensitive_tables)
    }

    /// Decrypts entities of a table.
    pub(crate) fn opener<'a>(&'a self, table: &'a TableName, select: Option<&'a Select>) -> Opener<'a> {
        let (id, compared) = (self.table_id(table), Vec::new());
        Opener { shared: &self.shared, table, id, select, compared, accepts_plaintext: false }
    }

    /// The entity as it is stored. A store that answers with another one is not trusted: it could be decrypted under its own
    /// key, and a merge would write its content to the key that was asked for.
    pub(crate) async fn fetch(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let found = self.inner.get(table, key, select).await?;
        found.iter().try_for_each(|entity| check_entity(table, key, entity))?;
        Ok(found)
    }

    /// A page as it is stored, with what decryption needs.
    async fn fetch_page(
        &self,
        opener: &Opener<'_>,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let table = opener.table;
        let page = match opener.widened() {
            None => self.inner.query(table, query, from).await?,
            wider => self.inner.query(table, &Query { select: wider, ..query.clone() }, from).await?,
        };
        check_page(&self.profile, table, query, &page.items)?;
        Ok(page)
    }

    /// Decrypts the pages of a query, if it can be asked.
    fn opener_of<'a>(&'a self, table: &'a TableName, query: &'a Query) -> Result<Opener<'a>> {
        let compared = filter::compared(query.filter.as_ref());
        let opener = Opener { compared, ..self.opener(table, query.select.as_ref()) };
        opener.check_filter().map(|()| opener)
    }

    /// How the table is called in scopes and rules.
    pub(crate) fn table_id(&self, table: &TableName) -> String {
        if self.profile.case_sensitive_tables { table.to_string() } else { table.to_lowercase() }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore> TableStore for EncryptedStore<S> {
    fn profile(&self) -> &ServiceProfile {
        &self.profile
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        self.inner.create_table(table).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.inner.delete_table(table).await?;
        self.shared.rules.forget(&self.table_id(table));
        Ok(())
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.inner.list_tables(prefix, from).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        let opener = self.opener(table, select);
        let wider = opener.widened();
        let found = self.fetch(table, key, wider.as_ref().or(select)).await?;
        match found {
            None => Ok(None),
            Some(entity) => opener.reveal(entity).await.map(Some),
        }
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let opener = self.opener_of(table, query)?;
        let page = self.fetch_page(&opener, query, from).await?;
        opener.reveal_page(page).await
    }

    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let opener = self.opener_of(table, query)?;
        let page = self.fetch_page(&opener, query, from).await?;
        opener.reveal_readable(page).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.write_one(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.write_group(table, group).await
    }

    fn declare_encrypted(&self, table: &TableName, names: &[&str]) {
        let id = self.table_id(table);
        names.iter().for_each(|name| self.shared.rules.remember(&id, name));
    }

    fn encrypted_names(&self, table: &TableName) -> EncryptedNames {
        let names = self.shared.rules.names(&self.table_id(table));
        // The wrapped store may encrypt as well.
        names.with_all_of(&self.inner.encrypted_names(table))
    }

    fn local_writers(&self) -> Option<Arc<LocalWriters>> {
        self.inner.local_writers()
    }
}

impl<S: fmt::Debug> fmt::Debug for EncryptedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedStore").field("inner", &self.inner).field("shared", &self.shared).finish()
    }
}
