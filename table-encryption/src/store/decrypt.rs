use std::collections::HashSet;

use futures_util::{StreamExt as _, stream};
use table_core::model::{Entity, Key, Properties, TableName, ValueRef};
use table_core::query::{Filter, Page, ReadablePage, Select, UnreadableEntity};
use table_core::store::{EncryptedNames, Error, ErrorKind, Result};

use super::Shared;
use super::filter::Compared;
use crate::data_key::Wrapping;
use crate::error::{Failure, Unreadable, is_service_error};
use crate::v1::{METADATA, Metadata};
use crate::v2::{self, HEADER, Header, Scope};

/// Maximum number of keys that are unwrapped concurrently for a page: enough to hide the latency of a key service, and few
/// against the request limits of one that all processes share.
const CONCURRENT_UNWRAPS: usize = 8;
/// Number of entities decrypted before yielding to other tasks of the thread. An entity takes microseconds, so the other tasks
/// wait for less than a millisecond.
const DECRYPTED_PER_YIELD: usize = 128;

/// Decrypts entities of a table, for one read: it knows what the read selects and compares.
pub(crate) struct Decryptor<'a> {
    pub(super) shared: &'a Shared,
    pub(super) table: &'a TableName,
    /// The name of the table as scopes and rules have it: see `EncryptedStore::table_id`.
    pub(super) table_id: String,
    pub(super) select: Option<&'a Select>,
    /// The properties that the query's filter compares, except for keys.
    pub(super) compared: Compared<'a>,
    pub(crate) accepts_plaintext: bool,
}

/// The stored form of an entity.
pub(crate) enum StoredForm {
    /// Not encrypted.
    Plain,
    /// Encrypted in format v2.
    V2(Box<Header>),
    /// Encrypted in the legacy format.
    V1(Box<Metadata>),
}

impl Decryptor<'_> {
    /// Returns the projection with the properties that decryption and the filter check need; `None` if it
    /// needs no more properties.
    pub(super) fn widened(&self) -> Option<Select> {
        let select = self.select?;
        let legacy = self
            .shared
            .legacy
            .as_ref()
            .filter(|l| l.reads(&self.table_id));
        let more = std::iter::once(HEADER).chain(legacy.into_iter().flat_map(|_| METADATA));
        let needs = !self.keys_only() || !self.compared.is_empty();
        needs.then(|| select.union(more))
    }

    /// Whether the projection has only properties that are never encrypted.
    pub(super) fn keys_only(&self) -> bool {
        self.select
            .is_some_and(|select| select.names().all(is_system))
    }

    /// Returns the stored form of the entity.
    pub(crate) fn stored(&self, entity: &Entity) -> Result<StoredForm> {
        let legacy = self
            .shared
            .legacy
            .as_ref()
            .filter(|l| l.reads(&self.table_id));
        let metadata = legacy.map(|_| Metadata::of(entity.properties()));
        let header = entity.get(HEADER).map(|value| match value {
            ValueRef::Binary(bytes) => Header::parse(bytes),
            _ => None,
        });
        match (header, metadata.unwrap_or(Ok(None))) {
            (None, Ok(None)) => Ok(StoredForm::Plain),
            (Some(Some(header)), Ok(None)) => Ok(StoredForm::V2(Box::new(header))),
            (None, Ok(Some(metadata))) => Ok(StoredForm::V1(Box::new(metadata))),
            // Both headers, or one that cannot be parsed. Legacy metadata next to a v2 header would let a writer without the key choose the
            // format that has no integrity.
            _ => Err(Unreadable::Refused.of_entity(self.table, entity.key())),
        }
    }

    /// Decrypts an entity and marks its encrypted properties.
    pub(crate) async fn decrypt(&self, entity: Entity) -> Result<Entity> {
        let stored = self.stored(&entity)?;
        self.decrypt_as(entity, stored)
            .await
            .map_err(Failure::into_error)
    }

    /// Decrypts an entity whose stored form is known.
    pub(crate) async fn decrypt_as(
        &self,
        entity: Entity,
        stored: StoredForm,
    ) -> Result<Entity, Failure> {
        let entity = self.open(entity, stored).await?;
        self.check_plaintext(entity, &self.shared.rules.names(&self.table_id))
            .map_err(Failure::OfEntity)
    }

    /// Decrypts an entity if it is encrypted. Does not check for plaintext that should be encrypted.
    async fn open(&self, mut entity: Entity, stored: StoredForm) -> Result<Entity, Failure> {
        let opened = match stored {
            // Keys are never encrypted, so no key is unwrapped for a projection of them. The header was read for the filter's check.
            StoredForm::V2(_) if self.keys_only() => return Ok(without_properties(entity)),
            StoredForm::Plain => return self.check_header(entity).map_err(Failure::OfEntity),
            StoredForm::V2(header) => self.open_v2(&entity, &header).await,
            StoredForm::V1(metadata) => self.open_v1(&entity, *metadata).await,
        };
        *entity.properties_mut() = opened.map_err(|e| e.failure(self.table, entity.key()))?;
        Ok(entity)
    }

    async fn open_v2(&self, entity: &Entity, header: &Header) -> Result<Properties, Unreadable> {
        let secret = self.shared.keys.open(&header.wrapping).await?;
        let scope = Scope::of_entity(&self.table_id, entity.key());
        let opened = v2::open(entity.properties(), header, scope, &secret, self.select)?;
        // Only after the header was verified: a forged list could otherwise declare any name encrypted, and all plaintext under that name
        // would be refused.
        header
            .list
            .iter()
            .for_each(|listed| self.shared.rules.record(&self.table_id, &listed.name));
        Ok(opened)
    }

    async fn open_v1(&self, entity: &Entity, metadata: Metadata) -> Result<Properties, Unreadable> {
        let legacy = self.shared.legacy.as_ref().ok_or(Unreadable::Refused)?;
        let (opened, encrypted) = legacy.open(entity, metadata, self.select).await?;
        encrypted
            .iter()
            .for_each(|name| self.shared.rules.record(&self.table_id, name));
        Ok(opened)
    }

    /// Accepts an entity without a header if the rules allow it.
    fn check_header(&self, entity: Entity) -> Result<Entity> {
        if self.shared.rules.requires(&self.table_id)
            && !self.keys_only()
            && !self.may_read_plaintext()
        {
            return Err(ErrorKind::Encryption(format!(
                "{} of the table '{}' is not encrypted but must be; during a migration use `accept_plaintext`",
                entity.key(),
                self.table
            ))
            .into());
        }
        Ok(entity)
    }

    /// Refuses plaintext in a property that a rule names, or marks it during a migration. Also refuses
    /// plaintext in a property that was read encrypted in the table: a writer without the key may have
    /// replaced the ciphertext.
    fn check_plaintext(&self, mut entity: Entity, names: &EncryptedNames) -> Result<Entity> {
        if self.may_read_plaintext() {
            let key = entity.key().clone();
            self.shared
                .rules
                .mark(&self.table_id, &key, entity.properties_mut());
            return Ok(entity);
        }
        let Some(name) = names
            .find_unmarked(&entity)
            .filter(|name| !self.may_be_plain(names, name))
        else {
            return Ok(entity);
        };
        let (key, table) = (entity.key(), self.table);
        let text = if names.has_rule(name) {
            format!(
                "the property '{name}' of {key} in the table '{table}' is in plaintext but must be encrypted: \
                 `accept_plaintext` declares a migration"
            )
        } else {
            format!(
                "the property '{name}' of {key} in the table '{table}' is in plaintext but is encrypted in the \
                 table: somebody without the key wrote it, or `encrypt_where` must say which rows have it in \
                 plaintext; `accept_plaintext` declares a migration"
            )
        };
        Err(ErrorKind::Encryption(text).into())
    }

    /// Whether the table has legacy entities, which are encrypted row by row: properties that no rule names
    /// may then be in plaintext.
    fn may_be_plain(&self, names: &EncryptedNames, name: &str) -> bool {
        !names.has_rule(name)
            && self
                .shared
                .legacy
                .as_ref()
                .is_some_and(|legacy| legacy.reads(&self.table_id))
    }

    fn may_read_plaintext(&self) -> bool {
        self.accepts_plaintext || self.shared.rules.accepts_plaintext(&self.table_id)
    }

    /// Decrypts a page, unless it shows that the filter compared ciphertext. First unwraps the needed keys, a few concurrently.
    ///
    /// Plaintext is checked after every entity is decrypted: a name that one entity of the page has encrypted must not be in plaintext in
    /// another, in either order.
    pub(super) async fn decrypt_page(
        &self,
        page: Page<Entity>,
        unreadable: OnUnreadable,
    ) -> Result<ReadablePage> {
        let mut listed = Vec::new();
        let mut list = |key: Key, error: Error| match unreadable {
            OnUnreadable::Fail => Err(error),
            OnUnreadable::List => {
                listed.push(UnreadableEntity { key, error });
                Ok(())
            }
        };
        let mut stored = Vec::with_capacity(page.items.len());
        for entity in page.items {
            match self.stored(&entity) {
                Ok(form) => {
                    self.check_stored(Some(&form))?;
                    stored.push((entity, form));
                }
                Err(error) => list(entity.key().clone(), error)?,
            }
        }
        if !self.keys_only() {
            self.unwrap_all(stored.iter().map(|(_, form)| form), unreadable)
                .await?;
        }
        let mut opened = Vec::with_capacity(stored.len());
        for (n, (entity, form)) in stored.into_iter().enumerate() {
            let key = entity.key().clone();
            match self.open(entity, form).await {
                Ok(entity) => opened.push(entity),
                Err(Failure::OfEntity(error)) => list(key, error)?,
                Err(Failure::OfService(error)) => return Err(error),
            }
            yield_regularly(n).await;
        }
        // Legacy entities show the encrypted names only after decryption.
        self.check_filter()?;
        let names = self.shared.rules.names(&self.table_id);
        let mut items = Vec::with_capacity(opened.len());
        for entity in opened {
            let key = entity.key().clone();
            match self.check_plaintext(entity, &names) {
                Ok(entity) => items.push(entity),
                Err(error) => list(key, error)?,
            }
        }
        let page = Page {
            items,
            continuation: page.continuation,
        };
        Ok(ReadablePage {
            page,
            unreadable: listed,
        })
    }

    /// Unwraps the keys of entities in order, a few concurrently. A refusal is reported with the entity that
    /// needs the key; here it is only recorded. If a page fails as a whole, this stops at the first refusal,
    /// because a writer of the table can put a made-up key into each entity.
    async fn unwrap_all(
        &self,
        stored: impl Iterator<Item = &StoredForm>,
        unreadable: OnUnreadable,
    ) -> Result<()> {
        let mut seen = HashSet::new();
        let wrappings = stored.filter_map(|form| match form {
            StoredForm::V2(header) => Some(&header.wrapping),
            _ => None,
        });
        let unwraps: Vec<_> = wrappings
            .filter(|wrapping| seen.insert(*wrapping))
            .map(|wrapping| self.unwrap(wrapping))
            .collect();
        let mut unwrapped = stream::iter(unwraps).buffered(CONCURRENT_UNWRAPS);
        while let Some(result) = unwrapped.next().await {
            match result {
                Err(Unreadable::Unavailable(error))
                    if is_service_error(&error) || unreadable == OnUnreadable::Fail =>
                {
                    return Err(error);
                }
                Err(_) if unreadable == OnUnreadable::Fail => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn unwrap(&self, wrapping: &Wrapping) -> Result<(), Unreadable> {
        self.shared.keys.open(wrapping).await.map(drop)
    }
}

/// What an entity that cannot be read does to its page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OnUnreadable {
    /// It fails the page. The unwrapping of keys stops at the first that is refused.
    Fail,
    /// It is listed. Every entity of the page gets its own result.
    List,
}

/// Yields to other tasks of the thread at regular intervals.
async fn yield_regularly(n: usize) {
    if n % DECRYPTED_PER_YIELD == DECRYPTED_PER_YIELD - 1 {
        tokio::task::yield_now().await;
    }
}

/// Whether the name is that of a key or of Timestamp, which are never encrypted.
pub(super) fn is_system(name: &str) -> bool {
    [Filter::PARTITION_KEY, Filter::ROW_KEY, Filter::TIMESTAMP].contains(&name)
}

/// Removes all properties from an entity of which only the keys were requested: the header was read to check the filter.
fn without_properties(mut entity: Entity) -> Entity {
    entity.properties_mut().clear();
    entity
}
