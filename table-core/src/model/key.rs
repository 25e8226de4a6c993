use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::chunk::{ChunkText, Span, Texts};
use super::key_order;
use crate::error::{Error, LimitKind, Result};
use crate::limits;

/// Whether the service forbids this character in keys.
///
/// <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#characters-disallowed-in-key-fields>
pub(crate) const fn is_forbidden(c: char) -> bool {
    matches!(c, '/' | '\\' | '#' | '?' | '\u{0}'..='\u{1F}' | '\u{7F}'..='\u{9F}')
}

/// The ASCII characters that a key may contain.
const ORDINARY: [bool; 256] = {
    let mut ordinary = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        ordinary[byte as usize] = !is_forbidden(byte as char);
        byte += 1;
    }
    ordinary
};

/// Whether a text consists of ASCII characters that a key may contain, except those excluded by `but`. This
/// fast check covers most texts.
#[inline]
pub(crate) fn is_ordinary(text: &str, but: impl Fn(u8) -> bool) -> bool {
    text.bytes()
        .all(|byte| ORDINARY[usize::from(byte)] && !but(byte))
}

fn check(name: &'static str, text: &str) -> Result<()> {
    if text.len() <= limits::KEY_UNITS && is_ordinary(text, |_| false) {
        return Ok(());
    }
    if let Some((at, bad)) = text.char_indices().find(|(_, c)| is_forbidden(*c)) {
        let reason = format!("the character {bad:?} at byte {at} is not allowed in a key");
        return Err(Error::invalid_key(name, text, reason));
    }
    // No character has more UTF-16 units than bytes, so short texts need no count.
    if text.len() > limits::KEY_UNITS {
        let units = text.encode_utf16().count();
        if units > limits::KEY_UNITS {
            return Err(Error::limit_of_kind(
                LimitKind::KeyLength,
                format!("UTF-16 units in the {name}"),
                limits::KEY_UNITS,
                units,
            ));
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
            /// Validates the text.
            ///
            /// # Errors
            /// Fails if the text is too long or has a forbidden character.
            pub fn new(text: impl Into<Box<str>>) -> Result<Self> {
                let text = text.into();
                check($wire, &text)?;
                Ok(Self(text))
            }

            /// Returns the text.
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
    "The key of a partition, which is the scope of an entity group transaction."
);
key_text!(
    RowKey,
    "RowKey",
    "The key of an entity in its partition. The service sorts a partition by it."
);

/// The validated key of an entity. Keys are ordered by PartitionKey, then RowKey, as in the service.
#[derive(Clone)]
pub struct Key {
    /// PartitionKey and RowKey, concatenated: one allocation, and in a chunk one range.
    text: ChunkText,
    /// Bytes of the PartitionKey.
    split: u32,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        // The text alone is not enough: ('a', 'b') and ('ab', '') have the same.
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
    /// Creates a key from PartitionKey and RowKey.
    ///
    /// # Errors
    /// Fails if one of them is too long or has a forbidden character.
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

    /// Checks whether the two texts can be a key.
    #[inline]
    pub(super) fn check(partition: &str, row: &str) -> Result<()> {
        check("PartitionKey", partition)?;
        check("RowKey", row)
    }

    /// Returns the PartitionKey.
    #[inline]
    pub fn partition(&self) -> &str {
        &self.text[..self.split as usize]
    }

    /// Returns the RowKey.
    #[inline]
    pub fn row(&self) -> &str {
        &self.text[self.split as usize..]
    }

    /// Returns the PartitionKey as an owned, validated value.
    pub fn partition_key(&self) -> PartitionKey {
        PartitionKey(self.partition().into())
    }

    /// Returns the RowKey as an owned, validated value.
    pub fn row_key(&self) -> RowKey {
        RowKey(self.row().into())
    }

    /// Returns bytes that sort like the service's keys: PartitionKey, a zero byte and RowKey, in the bytes of [`key_order`].
    pub fn to_sortable(&self) -> Vec<u8> {
        key_order::sortable_key(self.partition(), self.row())
    }

    /// Appends the bytes of [`to_sortable`](Self::to_sortable) to `out`.
    pub fn push_sortable(&self, out: &mut Vec<u8>) {
        key_order::push_sortable(out, self.partition());
        out.push(0);
        key_order::push_sortable(out, self.row());
    }

    /// Parses the bytes of [`Key::to_sortable`]; `None` if they are not a key.
    pub fn from_sortable(bytes: &[u8]) -> Option<Self> {
        // The zero byte between the two keys is not a part of the text.
        let mut text = Vec::with_capacity(bytes.len() - usize::from(!bytes.is_empty()));
        let split = key_order::push_key_text(&mut text, bytes, 0)?;
        Some(Self {
            text: ChunkText::Own(String::from_utf8(text).ok()?.into()),
            split,
        })
    }

    /// Creates a key whose texts are in a chunk. The PartitionKey has `split` bytes.
    pub(crate) const fn in_chunk(texts: Texts, span: Span, split: u32) -> Self {
        Self {
            text: ChunkText::Shared(texts, span),
            split,
        }
    }

    /// Converts to owned memory, if the text is shared with a page.
    pub(crate) fn detached(self) -> Self {
        Self {
            text: self.text.detached(),
            ..self
        }
    }

    fn join(partition: &str, row: &str) -> Self {
        let mut text = String::with_capacity(partition.len() + row.len());
        text.push_str(partition);
        text.push_str(row);
        Self {
            text: ChunkText::Own(text.into()),
            split: partition.len() as u32,
        }
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

/// Prints `('partition', 'row')`, with quotes doubled as in requests.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| text.replace('\'', "''");
        write!(
            f,
            "('{}', '{}')",
            quoted(self.partition()),
            quoted(self.row())
        )
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
