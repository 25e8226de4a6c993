use std::collections::HashSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, Properties, TableName, ValueRef};
use table_core::query::{Filter, Page, Select};
use table_core::store::{ErrorKind, Result};

use super::Shared;
use super::filter::Compared;
use crate::data_key::Wrapping;
use crate::error::Unreadable;
use crate::v1::{METADATA, Metadata};
use crate::v2::{self, HEADER, Header, Scope};

/// Keys that are unwrapped at once for a page.
const IN_PARALLEL: usize = 8;
/// Entities decrypted before others have their turn on the thread.
const IN_A_ROW: usize = 128;

/// Decrypts what is read from a table.
pub(crate) struct Opener<'a> {
    pub(super) shared: &'a Shared,
    pub(super) table: &'a TableName,
    pub(super) id: String,
    pub(super) select: Option<&'a Select>,
    /// What the filter of the query compares beside keys.
    pub(super) compared: Compared<'a>,
    pub(crate) accepts_plaintext: bool,
}

/// How an entity is stored.
pub(crate) enum Stored {
    /// Nothing in it is encrypted.
    Plain,
    /// Encrypted by format v2.
    V2(Box<Header>),
    /// Encrypted by the legacy format.
    V1(Box<Metadata>),
}

impl Opener<'_> {
    /// The projection with what decryption needs, and what tells that a filter compares ciphertext; `None` where it
    /// needs nothing more.
    pub(super) fn widened(&self) -> Option<Select> {
        let select = self.select?;
        let legacy = self.shared.legacy.as_ref().filter(|l| l.reads(&self.id));
        let more = std::iter::once(HEADER).chain(legacy.into_iter().flat_map(|_| METADATA));
        let needs = !self.keys_only() || !self.compared.is_empty();
        needs.then(|| select.union(more))
    }

    /// Whether nothing is asked for that could be encrypted.
    pub(super) fn keys_only(&self) -> bool {
        self.select.is_some_and(|select| select.names().all(is_system))
    }

    /// How the entity is stored.
    pub(crate) fn stored(&self, entity: &Entity) -> Result<Stored> {
        let legacy = self.shared.legacy.as_ref().filter(|l| l.reads(&self.id));
        let metadata = legacy.map(|_| Metadata::of(entity.properties()));
        let header = entity.get(HEADER).map(|value| match value {
            ValueRef::Binary(bytes) => Header::parse(bytes),
            _ => None,
        });
        match (header, metadata.unwrap_or(Ok(None))) {
            (None, Ok(None)) => Ok(Stored::Plain),
            (Some(Some(header)), Ok(None)) => Ok(Stored::V2(Box::new(header))),
            (None, Ok(Some(metadata))) => Ok(Stored::V1(Box::new(metadata))),
            _ => Err(Unreadable::Refused.of_entity(self.table, entity.key())),
        }
    }

    /// The entity in the clear, what was encrypted marked.
    pub(crate) async fn reveal(&self, entity: Entity) -> Result<Entity> {
        let stored = self.stored(&entity)?;
        self.reveal_as(entity, stored).await
    }

    /// The entity in the clear, stored as it was found to be.
    pub(crate) async fn reveal_as(&self, mut entity: Entity, stored: Stored) -> Result<Entity> {
        let opened = match stored {
            Stored::V2(_) if self.keys_only() => return Ok(without_properties(entity)),
            Stored::Plain => return self.check_plain(entity),
            Stored::V2(header) => self.open_v2(&entity, &header).await,
            Stored::V1(metadata) => self.open_v1(&entity, *metadata).await,
        };
        *entity.properties_mut() = opened.map_err(|e| e.of_entity(self.table, entity.key()))?;
        self.check_rules(entity)
    }

    async fn open_v2(&self, entity: &Entity, header: &Header) -> Result<Properties, Unreadable> {
        let secret = self.shared.keys.open(&header.wrapping).await?;
        let scope = Scope::of_entity(&self.id, entity.key());
        let opened = v2::open(entity.properties(), header, scope, &secret, self.select)?;
        header.list.iter().for_each(|listed| self.shared.rules.remember(&self.id, &listed.name));
        Ok(opened)
    }

    async fn open_v1(&self, entity: &Entity, metadata: Metadata) -> Result<Properties, Unreadable> {
        let legacy = self.shared.legacy.as_ref().ok_or(Unreadable::Refused)?;
        let (opened, encrypted) = legacy.open(entity, metadata, self.select).await?;
        encrypted.iter().for_each(|name| self.shared.rules.remember(&self.id, name));
        Ok(opened)
    }

    /// An entity without a header, where that is allowed.
    fn check_plain(&self, entity: Entity) -> Result<Entity> {
        if self.shared.rules.requires(&self.id) && !self.keys_only() && !self.accepts() {
            return Err(ErrorKind::Encryption(format!(
                "{} of the table '{}' is not encrypted, and must be: `accept_plaintext` declares a migration",
                entity.key(),
                self.table
            ))
            .into());
        }
        self.check_rules(entity)
    }

    /// Plaintext where a rule asks for encryption is refused, or marked during a migration.
    fn check_rules(&self, mut entity: Entity) -> Result<Entity> {
        let key = entity.key().clone();
        match self.shared.rules.mark(&self.id, &key, entity.properties_mut()) {
            Some(name) if !self.accepts() => Err(ErrorKind::Encryption(format!(
                "the property '{name}' of {key} in the table '{}' is in plaintext, and must be encrypted: \
                 `accept_plaintext` declares a migration",
                self.table
            ))
            .into()),
            _ => Ok(entity),
        }
    }

    fn accepts(&self) -> bool {
        self.accepts_plaintext || self.shared.rules.accepts_plaintext(&self.id)
    }

    /// The page in the clear, unless it shows that the filter compared ciphertext. Keys that it needs are unwrapped
    /// first, a few at once.
    pub(super) async fn reveal_page(&self, page: Page<Entity>) -> Result<Page<Entity>> {
        let mut stored = Vec::with_capacity(page.items.len());
        for entity in &page.items {
            stored.push(self.stored(entity)?);
            self.check_stored(stored.last())?;
        }
        if !self.keys_only() {
            self.unwrap_all(&stored).await?;
        }
        let mut items = Vec::with_capacity(page.items.len());
        for (n, (entity, stored)) in page.items.into_iter().zip(stored).enumerate() {
            items.push(self.reveal_as(entity, stored).await?);
            if n % IN_A_ROW == IN_A_ROW - 1 {
                tokio::task::yield_now().await;
            }
        }
        // Legacy entities tell what is encrypted only when they are decrypted.
        self.check_filter()?;
        Ok(Page { items, continuation: page.continuation })
    }

    /// Refusals are reported with the entity that needs the key; here they are only found out in parallel.
    async fn unwrap_all(&self, stored: &[Stored]) -> Result<()> {
        let wrappings: HashSet<&Wrapping> = stored
            .iter()
            .filter_map(|stored| if let Stored::V2(header) = stored { Some(&header.wrapping) } else { None })
            .collect();
        let unwraps: Vec<_> = wrappings.into_iter().map(|wrapping| self.unwrap(wrapping)).collect();
        stream::iter(unwraps).buffer_unordered(IN_PARALLEL).try_collect().await
    }

    async fn unwrap(&self, wrapping: &Wrapping) -> Result<()> {
        match self.shared.keys.open(wrapping).await {
            Err(Unreadable::Unavailable(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Whether the name is that of a key or of the time, which are never encrypted.
pub(super) fn is_system(name: &str) -> bool {
    [Filter::PARTITION_KEY, Filter::ROW_KEY, Filter::TIMESTAMP].contains(&name)
}

/// Of an entity whose keys alone were asked for, and whose header came with them.
fn without_properties(mut entity: Entity) -> Entity {
    entity.properties_mut().clear();
    entity
}
