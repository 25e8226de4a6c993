//! A stored row: its bytes, and its version and time.

use std::fmt;

use crate::error::{Error, Result};
use crate::model::{ETag, Entity, Key, Properties, SystemProperties, Texts, Ticks};

/// The version and time of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The number in the ETag. It is never reused in a store.
    pub version: u64,
    /// The time of the write, which is the Timestamp.
    pub time: Ticks,
}

/// A stored row without its key.
///
/// Its bytes: version (`u64`), time (ticks, `i64`), packed properties; little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Version and time of the last write.
    pub stamp: Stamp,
    /// The properties.
    pub properties: Properties,
}

impl Stamp {
    /// Bytes of a stamp. A [`Record`] starts with them.
    pub const BYTES: usize = 16;

    /// Appends the stored bytes.
    pub fn push_bytes(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.time.get().to_le_bytes());
    }
}

impl Record {
    /// Returns the stored bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Stamp::BYTES + self.properties.as_packed().len());
        self.push_bytes(&mut out);
        out
    }

    /// Appends the stored bytes.
    pub fn push_bytes(&self, out: &mut Vec<u8>) {
        self.stamp.push_bytes(out);
        out.extend_from_slice(self.properties.as_packed());
    }

    /// Parses the bytes of [`to_bytes`](Self::to_bytes) and checks all of them.
    ///
    /// # Errors
    /// Fails if the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let RecordRef { stamp, packed } = RecordRef::parse(bytes)?;
        Ok(Self {
            stamp,
            properties: Properties::from_packed(packed.to_vec())?,
        })
    }

    /// Converts the row to an entity.
    pub fn into_entity(self, key: Key) -> Entity {
        let etag = ETag::from_version(self.stamp.version);
        Entity::from_parts(key, self.properties).with_system(Some(etag), Some(self.stamp.time))
    }
}

/// A [`Record`] in its stored bytes. The stamp is decoded; the properties are not checked.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    /// Version and time of the last write.
    pub stamp: Stamp,
    packed: &'a [u8],
}

impl<'a> RecordRef<'a> {
    /// Parses the header of [`Record::to_bytes`].
    ///
    /// # Errors
    /// Fails if the header is damaged.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let damaged = || Error::corrupt("the header of a stored row is damaged");
        let (version, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        let (time, packed) = rest.split_first_chunk().ok_or_else(damaged)?;
        let time = Ticks::new(i64::from_le_bytes(*time)).ok_or_else(damaged)?;
        Ok(Self {
            stamp: Stamp {
                version: u64::from_le_bytes(*version),
                time,
            },
            packed,
        })
    }

    /// Returns the packed properties, or the numbered properties of a row.
    #[inline]
    pub(crate) const fn packed(&self) -> &'a [u8] {
        self.packed
    }

    /// Returns the record with packed properties in place of its numbered properties.
    pub(crate) const fn with_packed<'b>(&self, packed: &'b [u8]) -> RecordRef<'b> {
        RecordRef {
            stamp: self.stamp,
            packed,
        }
    }

    /// Returns an owned copy. The properties are trusted to be valid; see [`Rows`](super::Rows).
    pub(super) fn to_record(self) -> Record {
        Record {
            stamp: self.stamp,
            properties: Properties::from_trusted(self.packed.to_vec()),
        }
    }
}

/// Does not show the values, which may be secret.
impl fmt::Debug for RecordRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordRef")
            .field("stamp", &self.stamp)
            .finish_non_exhaustive()
    }
}

impl SystemProperties for Stamp {
    #[inline]
    fn etag_and_timestamp(self, _: &Texts) -> (Option<ETag>, Option<Ticks>) {
        (Some(ETag::from_version(self.version)), Some(self.time))
    }
}
