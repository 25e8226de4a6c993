use std::collections::HashSet;

use futures_util::{StreamExt as _, stream};
use table_core::model::{Entity, Properties, TableName, ValueRef};
use table_core::query::{Filter, Page, ReadablePage, Select, UnreadableEntity};
use table_core::store::{EncryptedNames, ErrorKind, Result};

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

/// Why an entity cannot be read.
pub(crate) enum Failure {
    /// The entity itself: others can be read.
    OfEntity(table_core::Error),
    /// The key service cannot be used now: the others cannot be read either.
    OfService(table_core::Error),
}

impl Failure {
    pub(crate) fn into_error(self) -> table_core::Error {
        match self {
            Self::OfEntity(error) | Self::OfService(error) => error,
        }
    }
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
        self.reveal_as(entity, stored).await.map_err(Failure::into_error)
    }

    /// The entity in the clear, stored as it was found to be.
    pub(crate) async fn reveal_as(&self, entity: Entity, stored: Stored) -> Result<Entity, Failure> {
        let entity = self.open(entity, stored).await?;
        self.check_plaintext(entity, &self.shared.rules.names(&self.id)).map_err(Failure::OfEntity)
    }

    /// The entity decrypted, if it is encrypted. Which of its properties may be in plaintext is not looked at.
    async fn open(&self, mut entity: Entity, stored: Stored) -> Result<Entity, Failure> {
        let opened = match stored {
            Stored::V2(_) if self.keys_only() => return Ok(without_properties(entity)),
            Stored::Plain => return self.check_header(entity).map_err(Failure::OfEntity),
            Stored::V2(header) => self.open_v2(&entity, &header).await,
            Stored::V1(metadata) => self.open_v1(&entity, *metadata).await,
        };
        *entity.properties_mut() = opened.map_err(|e| e.failure(self.table, entity.key()))?;
        Ok(entity)
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
    fn check_header(&self, entity: Entity) -> Result<Entity> {
        if self.shared.rules.requires(&self.id) && !self.keys_only() && !self.accepts() {
            return Err(ErrorKind::Encryption(format!(
                "{} of the table '{}' is not encrypted, and must be: `accept_plaintext` declares a migration",
                entity.key(),
                self.table
            ))
            .into());
        }
        Ok(entity)
    }

    /// Plaintext where a rule asks for encryption is refused, or marked during a migration. Plaintext of a name that
    /// was met encrypted in the table is refused too: a writer without the key may have put it in the place of the ciphertext.
    fn check_plaintext(&self, mut entity: Entity, names: &EncryptedNames) -> Result<Entity> {
        if self.accepts() {
            let key = entity.key().clone();
            self.shared.rules.mark(&self.id, &key, entity.properties_mut());
            return Ok(entity);
        }
        let Some(name) = names.find_unmarked(&entity).filter(|name| !self.may_be_plain(names, name)) else {
            return Ok(entity);
        };
        let (key, table) = (entity.key(), self.table);
        let text = if names.has_rule(name) {
            format!(
                "the property '{name}' of {key} in the table '{table}' is in plaintext, and must be encrypted: \
                 `accept_plaintext` declares a migration"
            )
        } else {
            format!(
                "the property '{name}' of {key} in the table '{table}' is in plaintext, and is encrypted in the \
                 table: somebody without the key wrote it, or `encrypt_where` must say which rows have it in \
                 plaintext; `accept_plaintext` declares a migration"
            )
        };
        Err(ErrorKind::Encryption(text).into())
    }

    /// Whether the legacy format is read here, which encrypts row by row: what no rule names may be in plaintext.
    fn may_be_plain(&self, names: &EncryptedNames, name: &str) -> bool {
        !names.has_rule(name) && self.shared.legacy.as_ref().is_some_and(|legacy| legacy.reads(&self.id))
    }

    fn accepts(&self) -> bool {
        self.accepts_plaintext || self.shared.rules.accepts_plaintext(&self.id)
    }

    /// The page in the clear, unless it shows that the filter compared ciphertext. Keys that it needs are unwrapped
    /// first, a few at once.
    ///
    /// Plaintext is checked when every entity is decrypted: a name that one entity of the page has encrypted cannot be in plaintext in
    /// another, whichever comes first.
    pub(super) async fn reveal_page(&self, page: Page<Entity>) -> Result<Page<Entity>> {
        let mut stored = Vec::with_capacity(page.items.len());
        for entity in &page.items {
            stored.push(self.stored(entity)?);
            self.check_stored(stored.last())?;
        }
        if !self.keys_only() {
            self.unwrap_all(stored.iter(), Stop::AtRefusal).await?;
        }
        let mut opened = Vec::with_capacity(page.items.len());
        for (n, (entity, stored)) in page.items.into_iter().zip(stored).enumerate() {
            opened.push(self.open(entity, stored).await.map_err(Failure::into_error)?);
            yield_regularly(n).await;
        }
        // Legacy entities tell what is encrypted only when they are decrypted.
        self.check_filter()?;
        let names = self.shared.rules.names(&self.id);
        let items =
            opened.into_iter().map(|entity| self.check_plaintext(entity, &names)).collect::<Result<_>>()?;
        Ok(Page { items, continuation: page.continuation })
    }

    /// The same, with the entities that cannot be read in a list of their own.
    pub(super) async fn reveal_readable(&self, page: Page<Entity>) -> Result<ReadablePage> {
        let mut unreadable = Vec::new();
        let mut stored = Vec::with_capacity(page.items.len());
        for entity in page.items {
            match self.stored(&entity) {
                Ok(how) => {
                    self.check_stored(Some(&how))?;
                    stored.push((entity, how));
                }
                Err(error) => unreadable.push(UnreadableEntity { key: entity.key().clone(), error }),
            }
        }
        if !self.keys_only() {
            self.unwrap_all(stored.iter().map(|(_, how)| how), Stop::Never).await?;
        }
        let mut opened = Vec::with_capacity(stored.len());
        for (n, (entity, how)) in stored.into_iter().enumerate() {
            let key = entity.key().clone();
            match self.open(entity, how).await {
                Ok(entity) => opened.push(entity),
                Err(Failure::OfEntity(error)) => unreadable.push(UnreadableEntity { key, error }),
                Err(Failure::OfService(error)) => return Err(error),
            }
            yield_regularly(n).await;
        }
        self.check_filter()?;
        let names = self.shared.rules.names(&self.id);
        let mut items = Vec::with_capacity(opened.len());
        for entity in opened {
            let key = entity.key().clone();
            match self.check_plaintext(entity, &names) {
                Ok(entity) => items.push(entity),
                Err(error) => unreadable.push(UnreadableEntity { key, error }),
            }
        }
        let page = Page { items, continuation: page.continuation };
        Ok(ReadablePage { page, unreadable })
    }

    /// Unwraps the keys of entities in their order, a few at once. Refusals are reported with the entity that needs the key;
    /// here they are only found out in parallel. A page that is refused as a whole ends at the first refusal: a writer of the
    /// table can put a made-up key into each entity.
    async fn unwrap_all(&self, stored: impl Iterator<Item = &Stored>, stop: Stop) -> Result<()> {
        let mut seen = HashSet::new();
        let wrappings = stored.filter_map(|how| match how {
            Stored::V2(header) => Some(&header.wrapping),
            _ => None,
        });
        let unwraps: Vec<_> = wrappings
            .filter(|wrapping| seen.insert(*wrapping))
            .map(|wrapping| self.unwrap(wrapping))
            .collect();
        let mut unwrapped = stream::iter(unwraps).buffered(IN_PARALLEL);
        while let Some(result) = unwrapped.next().await {
            match result {
                Err(Unreadable::Unavailable(error))
                    if is_service_error(&error) || stop == Stop::AtRefusal =>
                {
                    return Err(error);
                }
                Err(_) if stop == Stop::AtRefusal => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn unwrap(&self, wrapping: &Wrapping) -> Result<(), Unreadable> {
        self.shared.keys.open(wrapping).await.map(drop)
    }
}

/// When the unwrapping of a page's keys ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    AtRefusal,
    Never,
}

/// Whether an error of the key service is about the service, and not about one key: it is transient, and other keys would meet
/// it too.
pub(crate) fn is_service_error(error: &table_core::Error) -> bool {
    error.is_transient() || error.is_ambiguous()
}

/// Yields to other tasks of the thread after each so many entities.
async fn yield_regularly(n: usize) {
    if n % IN_A_ROW == IN_A_ROW - 1 {
        tokio::task::yield_now().await;
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
