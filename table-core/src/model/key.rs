use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::chunk::{ChunkText, Span, Texts};
use super::key_order;
use crate::error::{Error, Result};
use crate::limits;

/// Whether the service forbids this character in a key.
///
/// <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#characters-disallowed-in-key-fields>
pub(crate) const fn is_forbidden(c: char) -> bool {
    matches!(c, '/' | '\\' | '#' | '?' | '\u{0}'..='\u{1F}' | '\u{7F}'..='\u{9F}')
}

/// The ASCII characters that a key may hold, by their byte.
const ORDINARY: [bool; 256] = {
    let mut ordinary = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        ordinary[byte as usize] = !is_forbidden(byte as char);
        byte += 1;
    }
    ordinary
};

/// Whether a text is ASCII that a key may hold, without `but`: quick to tell, and most texts are.
#[inline]
pub(crate) fn is_ordinary(text: &str, but: impl Fn(u8) -> bool) -> bool {
    text.bytes().all(|byte| ORDINARY[usize::from(byte)] && !but(byte))
}

fn check(name: &'static str, text: &str) -> Result<()> {
    if text.len() <= limits::KEY_UNITS && is_ordinary(text, |_| false) {
        return Ok(());
    }
    if let Some((at, bad)) = text.char_indices().find(|(_, c)| is_forbidden(*c)) {
        let reason = format!("the character {bad:?} at byte {at} is not allowed in a key");
        return Err(Error::invalid_key(name, text, reason));
    }
    // No character has more units than bytes: short texts need no count.
    if text.len() > limits::KEY_UNITS {
        let units = text.encode_utf16().count();
        if units > limits::KEY_UNITS {
            return Err(Error::limit(format!("UTF-16 units in the {name}"), limits::KEY_UNITS, units));
        }
    }
    Ok(())
}

macro_rules! key_text {
    ($name:ident, $wire:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// Validated: at most 512 UTF-16 code units, no control characters and none of `/ \ # ?`.
        /// Ordered as the service orders keys, by UTF-16 code unit.
        #[derive(Clone, PartialEq, Eq, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks and wraps the text.
            ///
            /// # Errors
            /// The text is too long or has a forbidden character.
            pub fn new(text: impl Into<Box<str>>) -> Result<Self> {
                let text = text.into();
                check($wire, &text)?;
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                key_order::compare(&self.0, &other.0)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

key_text!(
    PartitionKey,
    "PartitionKey",
    "The key of a partition: what is kept together, and the scope of a group transaction."
);
key_text!(RowKey, "RowKey", "The key of an entity within its partition, by which the partition is sorted.");

/// The whole key of an entity, validated. Keys order by partition, then row, as the service does.
#[derive(Clone)]
pub struct Key {
    /// Both texts, one after the other.
    text: ChunkText,
    split: u32,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.split == other.split && self.text == other.text
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
        self.split.hash(state);
    }
}

impl Key {
    /// A key from its two texts.
    ///
    /// # Errors
    /// One of them is too long or has a forbidden character.
    ///
    /// ```
    /// use table_core::model::Key;
    /// let key = Key::new("Sales", "empid_000223")?;
    /// assert_eq!((key.partition(), key.row()), ("Sales", "empid_000223"));
    /// assert!(Key::new("a/b", "").unwrap_err().to_string().contains("'/'"));
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn new(partition: impl AsRef<str>, row: impl AsRef<str>) -> Result<Self> {
        let (partition, row) = (partition.as_ref(), row.as_ref());
        Self::check(partition, row)?;
        Ok(Self::join(partition, row))
    }

    /// Whether the two texts can be a key.
    #[inline]
    pub(super) fn check(partition: &str, row: &str) -> Result<()> {
        check("PartitionKey", partition)?;
        check("RowKey", row)
    }

    /// The partition key.
    #[inline]
    pub fn partition(&self) -> &str {
        &self.text[..self.split as usize]
    }

    /// The row key.
    #[inline]
    pub fn row(&self) -> &str {
        &self.text[self.split as usize..]
    }

    /// The partition key as a validated text of its own.
    pub fn partition_key(&self) -> PartitionKey {
        PartitionKey(self.partition().into())
    }

    /// The row key as a validated text of its own.
    pub fn row_key(&self) -> RowKey {
        RowKey(self.row().into())
    }

    /// The key as bytes that sort as the service sorts; see [`key_order::sortable_key`].
    pub fn to_sortable(&self) -> Vec<u8> {
        key_order::sortable_key(self.partition(), self.row())
    }

    /// Appends [`to_sortable`](Self::to_sortable) to `out`.
    pub fn push_sortable(&self, out: &mut Vec<u8>) {
        key_order::push_sortable(out, self.partition());
        out.push(0);
        key_order::push_sortable(out, self.row());
    }

    /// Back from [`Key::to_sortable`]; `None` if the bytes are no key.
    pub fn from_sortable(bytes: &[u8]) -> Option<Self> {
        let mut text = Vec::with_capacity(bytes.len() - usize::from(!bytes.is_empty()));
        let split = key_order::push_key_text(&mut text, bytes, 0)?;
        Some(Self { text: ChunkText::Own(String::from_utf8(text).ok()?.into()), split })
    }

    /// The key whose texts stand in a chunk, the first `split` bytes long.
    pub(crate) const fn in_chunk(texts: Texts, span: Span, split: u32) -> Self {
        Self { text: ChunkText::Shared(texts, span), split }
    }

    /// The same in memory of its own, if it shares that of a page.
    pub(crate) fn detached(self) -> Self {
        Self { text: self.text.detached(), ..self }
    }

    fn join(partition: &str, row: &str) -> Self {
        let mut text = String::with_capacity(partition.len() + row.len());
        text.push_str(partition);
        text.push_str(row);
        Self { text: ChunkText::Own(text.into()), split: partition.len() as u32 }
    }
}

impl From<(&PartitionKey, &RowKey)> for Key {
    fn from((partition, row): (&PartitionKey, &RowKey)) -> Self {
        Self::join(partition.as_str(), row.as_str())
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        key_order::compare(self.partition(), other.partition())
            .then_with(|| key_order::compare(self.row(), other.row()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `('partition', 'row')`, with quotes doubled as on the wire.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| text.replace('\'', "''");
        write!(f, "('{}', '{}')", quoted(self.partition()), quoted(self.row()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
