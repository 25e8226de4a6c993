//! The encrypting store.

mod builder;
mod decrypt;
mod describe;
mod encrypt;
mod filter;
mod merge;
mod rules;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
pub use builder::EncryptedStoreBuilder;
use decrypt::OnUnreadable;
pub(crate) use decrypt::{Decryptor, StoredForm};
pub use describe::{Description, encrypted_names};
pub(crate) use encrypt::encrypt_entity;
use rules::Rules;
use table_core::forward_to_store;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{
    EncryptedNames, EncryptedProperties, GroupTransaction, Operation, Result, ServiceProfile,
    StoreContext, TableStore, Written, check_entity, check_page,
};

use crate::data_key::DataKeys;
use crate::v1::Legacy;
use crate::{BlobCipher, Keys};

/// A store that encrypts marked properties before they are sent, and decrypts the entities that it reads.
///
/// It encrypts properties with the mark (`#[encrypt]` in a derived type, [`Entity::with_encrypted`]) and
/// properties named by the rules of the [builder](EncryptedStoreBuilder). Decrypted properties are marked, so
/// writing the entity again encrypts them again. `docs/encryption-format.md` describes the format and the
/// attackers that it protects against.
///
/// Put it around the adapters, so that they see ciphertext only.
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
/// | single merge or insert-or-merge | 2 (3 for an entity in format v1), and the same again per conflict with another writer; 1 if the caller's ETag is refused |
/// | merge of no properties | 1 |
/// | a group with `n` merges | `n` + 1 (up to 2`n` + 1 with entities in format v1), and the same again per conflict with another writer |
/// | a projection | as without encryption; the header is read too |
///
/// The key service is called once per data key that is created or read, not per entity.
///
/// # Merge
/// The service cannot merge into an authenticated list, so a merge reads first. If the entity gets no
/// encrypted property, it reads only the header, to refuse plaintext for an encrypted property. Otherwise it
/// reads the entity and encrypts all of its encrypted properties again. It writes under the ETag that it
/// read. An unconditional merge repeats this after a conflict, up to
/// [`with_attempts`](EncryptedStoreBuilder::with_attempts).
///
/// # Errors
/// In addition to the wrapped store's errors:
/// - [`ErrorKind::Encryption`](table_core::store::ErrorKind::Encryption) if data cannot be decrypted (always
///   with the same text), or if a property is read or written in plaintext although a rule names it or other
///   entities of the table have it encrypted;
/// - [`ErrorKind::Service`](table_core::store::ErrorKind::Service) if the store returns another entity than
///   the requested one;
/// - limits that only the encrypted entity exceeds;
/// - errors that [`KeyWrap`](crate::KeyWrap) passes on.
///
/// One entity that cannot be read fails its whole page; a query [with unreadable entities](Query::with_unreadable) lists it beside the other
/// entities.
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
/// let found = store.query(&people, &Query::new().with_unreadable(), None).await?;
/// assert_eq!((found.page.items.len(), found.unreadable.len()), (1, 1));
/// assert_eq!(found.unreadable[0].key.row(), "2");
/// # Ok(())
/// # }
/// ```
///
/// # Filters
/// The service would compare ciphertext. Typed filters on `#[encrypt]` fields do not compile. A filter by
/// name is refused before it is sent if a rule names the property, if a typed table that encrypts it was
/// opened over this store, or if this store has written or read it encrypted in the table. Otherwise the
/// store checks the header of every entity that a filter returns, also if only keys are selected. A header
/// that lists a compared name turns the result into an error.
///
/// One gap remains: if this store does not know that `NationalId` is encrypted, the filter `NationalId eq
/// '…'` *misses* the encrypted entities, and the result looks empty. Close the gap with rules
/// ([`encrypt`](EncryptedStoreBuilder::encrypt)), typed tables, or
/// [`filter_only_by`](EncryptedStoreBuilder::filter_only_by), which refuses all names that are not listed.
/// For equality lookups use a [`BlindIndex`](crate::BlindIndex).
///
/// # Plaintext
/// A decrypted property is marked, and the mark stays when its value is changed
/// ([`Properties`](table_core::model::Properties)). If this store knows, as above, that a property is
/// encrypted in the table, it refuses to write it in plaintext; mark the property. It also refuses to read it
/// in plaintext, because any writer of the table can replace ciphertext by plaintext. If entities of one
/// table have the same name encrypted and in plaintext, a rule by row distinguishes them
/// ([`encrypt_where`](EncryptedStoreBuilder::encrypt_where)). A property that no rule names and that this
/// store has not read or written encrypted is read unchanged.
pub struct EncryptedStore<S> {
    inner: S,
    profile: ServiceProfile,
    context: StoreContext,
    pub(crate) shared: Arc<Shared>,
}

/// The state that does not depend on the wrapped store.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) keys: Arc<DataKeys>,
    pub(crate) rules: Rules,
    pub(crate) legacy: Option<Legacy>,
    pub(crate) attempts: u32,
}

impl<S: TableStore> EncryptedStore<S> {
    /// Encrypts marked properties on `store`, with default options.
    ///
    /// # Errors
    /// Fails if two keys have the same id, or if a key id or algorithm does not fit a header.
    pub fn new(store: S, keys: Keys) -> Result<Self> {
        Self::builder(store, keys).build()
    }

    /// Returns a builder with rules and options.
    pub fn builder(store: S, keys: Keys) -> EncryptedStoreBuilder<S> {
        EncryptedStoreBuilder::new(store, keys)
    }

    fn from_parts(inner: S, shared: Shared) -> Self {
        let profile = inner.profile().clone().with_encryption();
        let shared = Arc::new(shared);
        let rules = ByRules {
            shared: Arc::clone(&shared),
            profile: profile.clone(),
            inner: inner.context().clone(),
        };
        Self {
            context: inner.context().clone().with_encryption(Arc::new(rules)),
            inner,
            profile,
            shared,
        }
    }

    /// Returns the wrapped store. It returns ciphertext and does not encrypt writes.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns a cipher for blobs with the same keys.
    pub fn blob_cipher(&self) -> BlobCipher {
        BlobCipher::new(
            Arc::clone(&self.shared.keys),
            self.profile.case_sensitive_tables,
        )
    }

    /// Returns a decryptor for entities of a table.
    pub(crate) fn decryptor<'a>(
        &'a self,
        table: &'a TableName,
        select: Option<&'a Select>,
    ) -> Decryptor<'a> {
        let (table_id, compared) = (self.table_id(table), Vec::new());
        Decryptor {
            shared: &self.shared,
            table,
            table_id,
            select,
            compared,
            accepts_plaintext: false,
        }
    }

    /// Reads the entity as it is stored. A store that returns another entity is refused: that entity could be
    /// decrypted with its own key, and a merge would write its content under the requested key.
    pub(crate) async fn fetch(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let found = self.inner.get(table, key, select).await?;
        found
            .iter()
            .try_for_each(|entity| check_entity(table, key, entity))?;
        Ok(found)
    }

    /// Reads a page as it is stored, with the properties that decryption needs.
    async fn fetch_page(
        &self,
        decryptor: &Decryptor<'_>,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let table = decryptor.table;
        let page = match decryptor.widened() {
            None => self.inner.query(table, query, from).await?.into_page()?,
            wider => self
                .inner
                .query(
                    table,
                    &Query {
                        select: wider,
                        ..query.clone()
                    },
                    from,
                )
                .await?
                .into_page()?,
        };
        check_page(&self.profile, table, query, &page.items)?;
        Ok(page)
    }

    /// Returns a decryptor for the pages of a query, after checking the query.
    fn query_decryptor<'a>(
        &'a self,
        table: &'a TableName,
        query: &'a Query,
    ) -> Result<Decryptor<'a>> {
        let compared = filter::compared(query.filter.as_ref());
        let decryptor = Decryptor {
            compared,
            ..self.decryptor(table, query.select.as_ref())
        };
        decryptor.check_filter().map(|()| decryptor)
    }

    /// Returns the table's id for scopes and rules.
    pub(crate) fn table_id(&self, table: &TableName) -> String {
        table_id(&self.profile, table)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore> TableStore for EncryptedStore<S> {
    forward_to_store!(self => self.inner;
        create_table, list_tables);

    fn profile(&self) -> &ServiceProfile {
        &self.profile
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        // Only after the deletion: until then a filter on a recorded name would compare ciphertext.
        self.inner.delete_table(table).await?;
        self.shared.rules.clear_recorded(&self.table_id(table));
        Ok(())
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let decryptor = self.decryptor(table, select);
        let wider = decryptor.widened();
        let found = self.fetch(table, key, wider.as_ref().or(select)).await?;
        match found {
            None => Ok(None),
            Some(entity) => decryptor.decrypt(entity).await.map(Some),
        }
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let decryptor = self.query_decryptor(table, query)?;
        let page = self.fetch_page(&decryptor, query, from).await?;
        let unreadable = if query.lists_unreadable {
            OnUnreadable::List
        } else {
            OnUnreadable::Fail
        };
        decryptor.decrypt_page(page, unreadable).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.write_one(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.write_group(table, group).await
    }

    fn context(&self) -> &StoreContext {
        &self.context
    }
}

/// The properties that the store encrypts, for its context.
struct ByRules {
    shared: Arc<Shared>,
    profile: ServiceProfile,
    /// The wrapped store may be an encrypting store too.
    inner: StoreContext,
}

impl EncryptedProperties for ByRules {
    fn declare(&self, table: &TableName, names: &[&str]) {
        let id = table_id(&self.profile, table);
        for name in names {
            self.shared.rules.record(&id, name);
        }
    }

    fn names(&self, table: &TableName) -> EncryptedNames {
        let names = self.shared.rules.names(&table_id(&self.profile, table));
        names.with_all_of(&self.inner.encrypted_names(table))
    }
}

/// Returns the table's id for scopes and rules.
fn table_id(profile: &ServiceProfile, table: &TableName) -> String {
    if profile.case_sensitive_tables {
        table.to_string()
    } else {
        table.to_lowercase()
    }
}

impl<S: fmt::Debug> fmt::Debug for EncryptedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedStore")
            .field("inner", &self.inner)
            .field("shared", &self.shared)
            .finish()
    }
}
