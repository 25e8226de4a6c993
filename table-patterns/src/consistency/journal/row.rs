//! Journal rows, which show that a write is committed and has entries to apply, and abort rows, which take their
//! place: the *evidence* of a write.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use table_core::model::{ETag, Entity, IfMatch, Key, SYSTEM_PREFIX, TableName, Ticks, ValueRef};
use table_core::query::Filter;
use table_core::store::{Error, Operation, Result};
use uuid::Uuid;

use super::apply::Entries;
use super::entity_table::EntityTable;
use super::lease::LONGEST_LEASE;
use super::unique::UniqueRow;
use crate::clock::millis;
use crate::entity_rows::WriteId;
use crate::entry::row_properties::{MOVE_WRITE, has_mark, is_mark_property, is_pending};
use crate::entry::shared::Merge;
use crate::entry::{Entry, Location, Shape};
use crate::rows::{accept_applied, get_bytes, set_bytes};

const KIND: &str = "JournalKind";
const ROWS: &str = "JournalRows";
const TOUCHED: &str = "JournalTouched";
const SOURCE: &str = "JournalSource";
const LEASE: &str = "JournalLease";
const CLAIM: &str = "JournalClaim";
const WRITTEN: &str = "JournalWritten";
const WRITE: &str = "write";
const ABORT: &str = "abort";

/// The keys of the rows of a write.
impl WriteId {
    /// The start of the RowKeys of journal rows and abort rows, after [`SYSTEM_PREFIX`].
    const KEY_PREFIX: &str = "j_";

    /// The key of the journal row of this write, or of the abort row in its place.
    pub(super) fn key(self, partition: &str) -> Result<Key> {
        Key::new(
            partition,
            format!("{SYSTEM_PREFIX}{}{self}", Self::KEY_PREFIX),
        )
    }

    /// The write of a journal row or an abort row, by its key; `None` for the key of another row.
    pub(super) fn of_key(key: &Key) -> Option<Self> {
        let text = key
            .row()
            .strip_prefix(SYSTEM_PREFIX)?
            .strip_prefix(Self::KEY_PREFIX)?;
        Uuid::try_parse(text).ok().map(Self::from_uuid)
    }

    /// A filter for journal rows and abort rows.
    pub(super) fn rows() -> Filter {
        Filter::starts_with(
            Filter::ROW_KEY,
            &format!("{SYSTEM_PREFIX}{}", Self::KEY_PREFIX),
        )
    }
}

/// The row at the key of a write.
#[derive(Clone, Debug)]
pub(super) enum Evidence {
    /// The write is committed, and its entries are to be applied.
    Journal(JournalRow),
    /// The write was given up and can never commit.
    Abort,
}

/// A committed write whose entries are to be applied.
#[derive(Clone, Debug)]
pub(super) struct JournalRow {
    pub(super) id: WriteId,
    pub(super) key: Key,
    pub(super) etag: Option<ETag>,
    /// The RowKeys of the entities that the write has changed.
    pub(super) rows: Vec<String>,
    /// The remote keys of their old and new states.
    pub(super) affected: Vec<AffectedKey>,
    /// The source of a move, which is deleted with all its entries.
    pub(super) source: Option<Key>,
    /// The claim of the process that applies the row; `None` before the first claim.
    pub(super) claim: Option<Uuid>,
    /// The time for which the author of this version may apply the row: other processes watch it as long. Zero if the
    /// writer has handed the write over.
    pub(super) lease: Duration,
}

impl JournalRow {
    /// The entities with which the entries must agree.
    pub(super) fn owners(&self) -> Result<Vec<Key>> {
        let mut owners = owners(self.key.partition(), &self.rows)?;
        owners.extend(self.source.clone());
        Ok(owners)
    }

    pub(super) fn to_entity(&self) -> Result<Entity> {
        let mut entity = Entity::from(self.key.clone())
            .with(KIND, WRITE)
            .with(LEASE, millis(self.lease))
            // For people who look at the table. No process compares it: clocks differ.
            .with(WRITTEN, Ticks::now());
        let source = self
            .source
            .as_ref()
            .map(|key| encode(&(key.partition(), key.row())))
            .transpose()?;
        let lists = [
            (ROWS, encode(&self.rows)?),
            (TOUCHED, encode(&self.affected)?),
        ];
        for (name, bytes) in lists
            .into_iter()
            .chain(source.map(|source| (SOURCE, source)))
        {
            set_bytes(&mut entity, name, &bytes);
        }
        if let Some(claim) = self.claim {
            entity.properties_mut().set(CLAIM, claim);
        }
        Ok(entity)
    }
}

/// A remote key that a write may affect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AffectedKey {
    // Names of one letter, and no property for `false` or `None`: a ticket lists these keys in one queue
    // message (`MESSAGE_BYTES`), and a journal row in the properties of one entity.
    #[serde(rename = "t")]
    table: String,
    #[serde(rename = "p")]
    partition: String,
    #[serde(rename = "r")]
    row: String,
    #[serde(rename = "u", default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unique: bool,
    /// Whether only the new state has the key: then there is no row, or a row of another entity.
    #[serde(rename = "a", default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) added: bool,
    /// The index and the shape of a row that holds the entries of several entities.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub(super) shared: Option<(String, Shape)>,
}

impl AffectedKey {
    pub(super) fn of(entry: &Entry, added: bool) -> Self {
        let Location { table, key } = &entry.location;
        let (partition, row) = (key.partition().to_owned(), key.row().to_owned());
        Self {
            table: table.to_string(),
            partition,
            row,
            unique: entry.unique,
            added,
            shared: None,
        }
    }

    pub(super) fn shared(merge: &Merge) -> Self {
        let Location { table, key } = &merge.at;
        let (partition, row) = (key.partition().to_owned(), key.row().to_owned());
        let shared = Some((merge.index.clone(), merge.shape.clone()));
        Self {
            table: table.to_string(),
            partition,
            row,
            unique: false,
            added: false,
            shared,
        }
    }

    /// Whether both are the same row: the whole row, or the part of the same index.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        let index = |affected: &Self| affected.shared.as_ref().map(|(index, _)| index.clone());
        (&self.table, &self.partition, &self.row) == (&other.table, &other.partition, &other.row)
            && index(self) == index(other)
    }

    pub(super) fn location(&self) -> Result<Location> {
        let table = TableName::new(self.table.as_str())?;
        Ok(Location {
            table,
            key: Key::new(&self.partition, &self.row)?,
        })
    }
}

/// The journal rows and the abort rows of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalRows<'a> {
    pub(super) entities: &'a EntityTable,
}

impl JournalRows<'_> {
    /// The row at the key of a write: a journal row, an abort row, or none. 1 request.
    pub(super) async fn evidence(&self, id: WriteId, partition: &str) -> Result<Option<Evidence>> {
        let entity = self
            .entities
            .store
            .get(&self.entities.name, &id.key(partition)?, None)
            .await?;
        entity.as_ref().map(|e| read(id, e)).transpose()
    }

    /// Gives a write up unless it is committed: inserts the abort row at the key of the journal row. Afterwards the write can never
    /// commit, because the insert of its journal row fails. `None` if a row was there and was deleted in between: a journal row, because
    /// abort rows stay. 1 request, 2 if a row is there.
    pub(super) async fn abort(&self, id: WriteId, partition: &str) -> Result<Option<Evidence>> {
        let row = abort_row(id.key(partition)?);
        match accept_applied(
            self.entities
                .store
                .write(&self.entities.name, Operation::Insert(row))
                .await,
        ) {
            Ok(_) => Ok(Some(Evidence::Abort)),
            Err(e) if e.is_already_exists() && !e.is_ambiguous() => {
                self.evidence(id, partition).await
            }
            Err(e) => Err(e),
        }
    }

    /// Claims a row under its ETag for an applier with this lease. `None` if another process has changed the row, or if the outcome is
    /// ambiguous.
    pub(super) async fn claim(
        &self,
        row: JournalRow,
        lease: Duration,
    ) -> Result<Option<JournalRow>> {
        self.replace(JournalRow {
            claim: Some(Uuid::new_v4()),
            lease,
            ..row
        })
        .await
    }

    /// Replaces a row in the version that was read. `None` if it has changed, or if the outcome is ambiguous.
    pub(super) async fn replace(&self, mut row: JournalRow) -> Result<Option<JournalRow>> {
        let Some(etag) = row.etag.take() else {
            return Ok(None);
        };
        let replace = Operation::Replace(row.to_entity()?, etag.into());
        match accept_applied(
            self.entities
                .store
                .write(&self.entities.name, replace)
                .await,
        ) {
            Ok(written) => Ok(written.etag.map(|etag| JournalRow {
                etag: Some(etag),
                ..row
            })),
            // An ambiguous claim is given up: if it took effect, the next process watches it for its whole
            // lease.
            Err(e) if e.is_precondition_failed() || e.is_entity_not_found() || e.is_ambiguous() => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Deletes the row of an applied write in its version. Entries count as pending if it is not certain that the row is gone.
    pub(super) async fn clear(&self, row: &JournalRow) -> Result<Entries> {
        let Some(etag) = row.etag.clone() else {
            return Ok(Entries::Pending);
        };
        // In the version that was applied: if another process has claimed the row since, its applier clears it.
        let delete = Operation::Delete(row.key.clone(), IfMatch::Exactly(etag));
        match accept_applied(self.entities.store.write(&self.entities.name, delete).await) {
            Ok(_) => Ok(Entries::Applied),
            Err(e) if e.is_ambiguous() || e.is_precondition_failed() => Ok(Entries::Pending),
            Err(e) if e.is_entity_not_found() => Ok(Entries::Applied),
            Err(e) => Err(e),
        }
    }
}

/// The keys of entities of a partition.
pub(super) fn owners(partition: &str, rows: &[String]) -> Result<Vec<Key>> {
    rows.iter().map(|row| Key::new(partition, row)).collect()
}

/// An abort row.
pub(super) fn abort_row(key: Key) -> Entity {
    Entity::from(key)
        .with(KIND, ABORT)
        .with(WRITTEN, Ticks::now())
}

/// Whether a row is a journal row.
pub(crate) fn is_journal_row(row: &Entity) -> bool {
    WriteId::of_key(row.key()).is_some() && row.get(KIND) == Some(ValueRef::String(WRITE))
}

/// What is wrong with a row whose key or properties are those of the journal; `None` for a sound row, and for all other rows. Nothing but
/// the journal writes such rows, but any client of the table can.
pub(crate) fn damage(row: &Entity) -> Option<Error> {
    let at_write = row
        .key()
        .row()
        .strip_prefix(SYSTEM_PREFIX)
        .is_some_and(|row| row.starts_with(WriteId::KEY_PREFIX));
    if at_write {
        return match WriteId::of_key(row.key()) {
            Some(id) => read(id, row).err(),
            None => Some(Error::decode(
                "journal row",
                row.key(),
                "RowKey",
                "the id of a write",
                "another text",
            )),
        };
    }
    if is_pending(row) {
        return UniqueRow::read(row).err();
    }
    let is_marked = row
        .properties()
        .iter()
        .any(|property| is_mark_property(property.name()));
    let expected = "the mark of a move: an Edm.Guid, and a PartitionKey";
    (is_marked && !has_mark(row))
        .then(|| Error::decode("entity", row.key(), MOVE_WRITE, expected, "another value"))
}

/// Reads the row at the key of a write.
pub(super) fn read(id: WriteId, entity: &Entity) -> Result<Evidence> {
    let damaged = |name: &str| {
        Error::decode(
            "journal row",
            entity.key(),
            name,
            "a valid value",
            "a missing or invalid value",
        )
    };
    match entity.get(KIND) {
        Some(ValueRef::String(ABORT)) => Ok(Evidence::Abort),
        Some(ValueRef::String(WRITE)) => {
            let claim = match entity.get(CLAIM) {
                None => None,
                Some(ValueRef::Guid(claim)) => Some(claim),
                Some(_) => return Err(damaged(CLAIM)),
            };
            Ok(Evidence::Journal(JournalRow {
                id,
                key: entity.key().clone(),
                etag: entity.etag().cloned(),
                rows: decode(&get_bytes(entity, ROWS)).ok_or_else(|| damaged(ROWS))?,
                affected: decode(&get_bytes(entity, TOUCHED)).ok_or_else(|| damaged(TOUCHED))?,
                source: source(entity).ok_or_else(|| damaged(SOURCE))?,
                claim,
                lease: lease(entity).ok_or_else(|| {
                    let expected = format!("milliseconds, at most {}", LONGEST_LEASE.as_millis());
                    Error::decode(
                        "journal row",
                        entity.key(),
                        LEASE,
                        &expected,
                        "another value",
                    )
                })?,
            }))
        }
        _ => Err(damaged(KIND)),
    }
}

fn lease(entity: &Entity) -> Option<Duration> {
    match entity.get(LEASE) {
        Some(ValueRef::Int64(millis)) => Some(Duration::from_millis(millis.try_into().ok()?)),
        _ => None,
    }
    .filter(|lease| *lease <= LONGEST_LEASE)
}

/// The source of a move: `Some(None)` if the write is not a move, `None` if the property is damaged.
fn source(entity: &Entity) -> Option<Option<Key>> {
    let bytes = get_bytes(entity, SOURCE);
    if bytes.is_empty() {
        return Some(None);
    }
    let (partition, row): (String, String) = decode(&bytes)?;
    Key::new(partition, row).ok().map(Some)
}

pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|e| Error::invalid_argument(format!("a journal row cannot be encoded: {e}")))
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}
