//! The text of a plan: JSON, with the properties of entities and the bytes of blobs and payloads as base64.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use table_core::model::{Entity, Key, Properties, TableName};
use table_core::store::{Error, Result};
use uuid::Uuid;

use super::plan::{EventualTransaction, TransactionId};
use super::step::{Place, Step};
use crate::rows::encrypted::plaintext_error;

#[derive(Serialize, Deserialize)]
pub(super) struct PlanFormat {
    id: Uuid,
    steps: Vec<StepFormat>,
    /// Start and end of each run of steps that are done at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    together: Vec<Range<usize>>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum StepFormat {
    Upsert {
        at: PlaceFormat,
        properties: String,
    },
    UpsertMerge {
        at: PlaceFormat,
        properties: String,
    },
    ReplaceIfExists {
        at: PlaceFormat,
        properties: String,
    },
    DeleteIfExists {
        at: PlaceFormat,
    },
    Move {
        at: PlaceFormat,
        to: PlaceFormat,
    },
    PutBlob {
        blobs: String,
        path: String,
        bytes: String,
    },
    DeleteBlob {
        blobs: String,
        path: String,
    },
    Handle {
        handler: String,
        payload: String,
    },
}

#[derive(Serialize, Deserialize)]
struct PlaceFormat {
    store: String,
    table: String,
    partition: String,
    row: String,
}

impl PlanFormat {
    pub(super) fn of(transaction: &EventualTransaction) -> Result<Self> {
        let steps = transaction
            .steps()
            .iter()
            .map(StepFormat::of)
            .collect::<Result<_>>()?;
        Ok(Self {
            id: transaction.id().uuid(),
            steps,
            together: transaction.stages_together().to_vec(),
        })
    }

    pub(super) fn into_transaction(self) -> Result<EventualTransaction> {
        let steps = self
            .steps
            .into_iter()
            .map(StepFormat::into_step)
            .collect::<Result<Vec<_>>>()?;
        if steps.is_empty() {
            return Err(Error::corrupt("a stored plan has no step"));
        }
        let mut after = 0;
        for stage in &self.together {
            // The text may be from another version of the program. A worker slices the steps by these ranges.
            if stage.start < after || stage.end > steps.len() || stage.len() < 2 {
                return Err(Error::corrupt(
                    "a stored plan joins steps that it does not have",
                ));
            }
            after = stage.end;
        }
        Ok(EventualTransaction::from_parts(
            TransactionId::from_uuid(self.id),
            steps,
            self.together,
        ))
    }
}

impl StepFormat {
    fn of(step: &Step) -> Result<Self> {
        Ok(match step {
            Step::Upsert {
                store,
                table,
                entity,
            } => Self::Upsert {
                at: at(store, table, entity.key()),
                properties: packed(entity)?,
            },
            Step::UpsertMerge {
                store,
                table,
                entity,
            } => Self::UpsertMerge {
                at: at(store, table, entity.key()),
                properties: packed(entity)?,
            },
            Step::ReplaceIfExists {
                store,
                table,
                entity,
            } => Self::ReplaceIfExists {
                at: at(store, table, entity.key()),
                properties: packed(entity)?,
            },
            Step::DeleteIfExists(place) => Self::DeleteIfExists { at: place.into() },
            Step::Move { from, to } => Self::Move {
                at: from.into(),
                to: to.into(),
            },
            Step::PutBlob { blobs, path, bytes } => Self::PutBlob {
                blobs: blobs.clone(),
                path: path.clone(),
                bytes: STANDARD.encode(bytes),
            },
            Step::DeleteBlob { blobs, path } => Self::DeleteBlob {
                blobs: blobs.clone(),
                path: path.clone(),
            },
            Step::Handle { handler, payload } => Self::Handle {
                handler: handler.clone(),
                payload: STANDARD.encode(payload),
            },
        })
    }

    fn into_step(self) -> Result<Step> {
        Ok(match self {
            Self::Upsert { at, properties } => {
                let (store, table, entity) = at.into_entity(&properties)?;
                Step::Upsert {
                    store,
                    table,
                    entity,
                }
            }
            Self::UpsertMerge { at, properties } => {
                let (store, table, entity) = at.into_entity(&properties)?;
                Step::UpsertMerge {
                    store,
                    table,
                    entity,
                }
            }
            Self::ReplaceIfExists { at, properties } => {
                let (store, table, entity) = at.into_entity(&properties)?;
                Step::ReplaceIfExists {
                    store,
                    table,
                    entity,
                }
            }
            Self::DeleteIfExists { at } => Step::DeleteIfExists(at.into_place()?),
            Self::Move { at, to } => Step::Move {
                from: at.into_place()?,
                to: to.into_place()?,
            },
            Self::PutBlob { blobs, path, bytes } => Step::PutBlob {
                blobs,
                path,
                bytes: unpacked(&bytes)?,
            },
            Self::DeleteBlob { blobs, path } => Step::DeleteBlob { blobs, path },
            Self::Handle { handler, payload } => Step::Handle {
                handler,
                payload: unpacked(&payload)?,
            },
        })
    }
}

impl PlaceFormat {
    fn into_place(self) -> Result<Place> {
        let key = Key::new(&self.partition, &self.row)?;
        Ok(Place {
            store: self.store,
            table: TableName::new(self.table.as_str())?,
            key,
        })
    }

    fn into_entity(self, properties: &str) -> Result<(String, TableName, Entity)> {
        let Place { store, table, key } = self.into_place()?;
        let properties = Properties::from_packed(unpacked(properties)?)?;
        Ok((store, table, Entity::from_parts(key, properties)))
    }
}

impl From<&Place> for PlaceFormat {
    fn from(place: &Place) -> Self {
        at(&place.store, &place.table, &place.key)
    }
}

fn at(store: &str, table: &TableName, key: &Key) -> PlaceFormat {
    let (partition, row) = (key.partition().to_owned(), key.row().to_owned());
    PlaceFormat {
        store: store.to_owned(),
        table: table.to_string(),
        partition,
        row,
    }
}

/// The properties as text.
///
/// # Errors
/// A property is marked *encrypt*: a plan is stored in plaintext.
fn packed(entity: &Entity) -> Result<String> {
    if let Some(marked) = entity.properties().iter().find(|p| p.is_encrypted()) {
        return Err(plaintext_error(marked.name(), entity.key(), "a plan"));
    }
    Ok(STANDARD.encode(entity.properties().as_packed()))
}

fn unpacked(text: &str) -> Result<Vec<u8>> {
    STANDARD
        .decode(text)
        .map_err(|e| Error::corrupt(format!("a step of a stored plan is not valid base64: {e}")))
}
