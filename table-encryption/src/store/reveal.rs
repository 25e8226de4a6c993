use std::collections::HashSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, Properties, TableName, ValueRef};
use table_core::query::{Filter, Page, Select};
use table_core::store::{Error, ErrorKind, Result};

use super::Shared;
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
    /// The projection with what decryption needs; `None` where it needs nothing more.
    pub(super) fn widened(&self) -> Option<Select> {
        let select = self.select?;
        let asks =
            select.names().any(|n| ![Filter::PARTITION_KEY, Filter::ROW_KEY, Filter::TIMESTAMP].contains(&n));
        let legacy = self.shared.legacy.as_ref().filter(|l| l.reads(&self.id));
        let more = std::iter::once(HEADER).chain(legacy.into_iter().flat_map(|_| METADATA));
        asks.then(|| select.union(more))
    }

    /// Refuses a filter that compares what is encrypted: it would compare ciphertext.
    pub(super) fn check_filter(&self, filter: &Filter) -> Result<()> {
        let mut refused = None;
        filter.for_each_property(&mut |name| {
            if refused.is_none() && self.shared.rules.may_be_encrypted(&self.id, name) {
                refused = Some(name);
            }
        });
        refused.map_or(Ok(()), |name| Err(self.compared(name)))
    }

    fn compared(&self, name: &str) -> Error {
        Error::invalid_request(format!(
            "the filter compares the encrypted property '{name}' of the table '{}', which the service cannot do: \
             look it up through a blind index",
            self.table
        ))
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
        legacy.open(entity, metadata, self.select).await
    }

    /// An entity without a header, where that is allowed.
    fn check_plain(&self, entity: Entity) -> Result<Entity> {
        let keys_only = self.select.is_some() && self.widened().is_none();
        if self.shared.rules.requires(&self.id) && !keys_only && !self.accepts() {
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

    /// The page in the clear. Keys that it needs are unwrapped first, a few at once.
    pub(super) async fn reveal_page(
        &self,
        page: Page<Entity>,
        filter: Option<&Filter>,
    ) -> Result<Page<Entity>> {
        let mut stored = Vec::with_capacity(page.items.len());
        for entity in &page.items {
            stored.push(self.stored(entity)?);
        }
        self.unwrap_all(&stored).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for (n, (entity, stored)) in page.items.into_iter().zip(stored).enumerate() {
            items.push(self.reveal_as(entity, stored).await?);
            if n % IN_A_ROW == IN_A_ROW - 1 {
                tokio::task::yield_now().await;
            }
        }
        // What the page has just shown to be encrypted may be what the filter compared.
        filter.map_or(Ok(()), |filter| self.check_filter(filter))?;
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
