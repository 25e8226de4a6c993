//! The mode, the cursor and the result of a scrub.

use std::fmt;
use std::str::FromStr;

use table_core::manifest::IndexState;
use table_core::query::Continuation;
use table_core::store::{Error, Result};

use crate::entry::Index;
use crate::index::states::set::IndexSet;

/// Whether a scrub only reports or also repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubMode {
    /// Counts differences.
    Report,
    /// Counts differences, deletes dangling entries and adds missing entries.
    Repair,
}

/// The result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ScrubReport {
    /// Entries that were checked.
    pub entries: usize,
    /// Dangling entries: the entity does not exist, or has another entry.
    pub dangling: usize,
    /// Entities that were checked.
    pub entities: usize,
    /// Entities with an entry that was missing or had another payload. For a summary: its rows that were missing or wrong.
    pub missing: usize,
    /// Taken keys: entities with an entry whose key belongs to another entity. A scrub cannot repair these: it adds none of their missing entries.
    pub taken_keys: usize,
}

/// The position at which a scrub continues. Print it with [`Display`](fmt::Display), parse it with
/// [`str::parse`]. It contains a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubCursor {
    /// `false`: the scrub checks entries for their entities; `true`: the scrub checks entities for their entries.
    pub(super) dangling_done: bool,
    pub(super) at: Option<Continuation>,
    /// The partition whose summaries were last recounted.
    pub(super) partition: Option<String>,
}

impl ScrubCursor {
    /// Whether the scrub checks entities for missing entries.
    pub(crate) const fn is_among_entities(&self) -> bool {
        self.dangling_done
    }
}

/// `dangling` or `missing` with a continuation, or `after` with a partition.
impl fmt::Display for ScrubCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(partition) = &self.partition {
            return write!(f, "after {partition}");
        }
        f.write_str(if self.dangling_done {
            "missing"
        } else {
            "dangling"
        })?;
        self.at.as_ref().map_or(Ok(()), |at| write!(f, " {at}"))
    }
}

impl FromStr for ScrubCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, rest) = text
            .split_once(' ')
            .map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let at = |done| {
            Ok(Self {
                dangling_done: done,
                at: rest.map(str::parse).transpose()?,
                partition: None,
            })
        };
        match (kind, rest) {
            ("dangling", _) => at(false),
            ("missing", _) => at(true),
            ("after", Some(partition)) => Ok(Self {
                partition: Some(partition.to_owned()),
                ..Self::default()
            }),
            _ => Err(Error::invalid_continuation(format!(
                "{text:?} is not the cursor of a scrub: pass the text exactly as `ScrubCursor` printed it"
            ))),
        }
    }
}

/// Refuses an index in a state in which entities may lack entries. An entry is not missing then, and an added entry could outlive a
/// drop.
pub(crate) fn check_complete(set: &IndexSet, index: &Index) -> Result<()> {
    let (name, table) = (index.name(), set.table());
    match set.state(index.id()) {
        IndexState::Building | IndexState::Readable => Ok(()),
        state => Err(Error::index_not_ready(format!(
            "the index '{name}' of the table '{table}' is {state}, so entities may lack entries: call `build` before a scrub",
        ))),
    }
}
