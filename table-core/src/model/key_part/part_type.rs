use std::fmt;

/// The encoding of a [`KeyPart`](super::KeyPart) as data. Index definitions use it for the parts of their
/// keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyPartType {
    /// Text, escaped.
    Text,
    /// `0` or `1`.
    Bool,
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// A signed integer of 8 bits.
    I8,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// A floating-point number of 64 bits.
    F64,
    /// A point in time, as .NET ticks.
    Time,
    /// A calendar day, `YYYY-MM-DD`.
    Day,
    /// An hour of a day, `YYYY-MM-DDTHH`.
    Hour,
    /// A UUID.
    Uuid,
    /// An encoding that only the Rust type knows.
    Custom,
}

/// All types that have a name in templates.
const ALL: [KeyPartType; 15] = [
    KeyPartType::Text,
    KeyPartType::Bool,
    KeyPartType::U8,
    KeyPartType::U16,
    KeyPartType::U32,
    KeyPartType::U64,
    KeyPartType::I8,
    KeyPartType::I16,
    KeyPartType::I32,
    KeyPartType::I64,
    KeyPartType::F64,
    KeyPartType::Time,
    KeyPartType::Day,
    KeyPartType::Hour,
    KeyPartType::Uuid,
];

impl KeyPartType {
    /// Returns the name of the type in the templates of index definitions, such as `u32`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::Time => "time",
            Self::Day => "day",
            Self::Hour => "day_hour",
            Self::Uuid => "uuid",
            Self::Custom => "custom",
        }
    }

    /// Returns the type with this name. A custom encoding has no name.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        ALL.into_iter().find(|part_type| part_type.word() == word)
    }

    /// Whether the type is an unsigned integer, whose width a template may set.
    pub(crate) const fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// Whether the type is a number or a time, which has a descending order.
    pub(crate) const fn has_descending(self) -> bool {
        !matches!(
            self,
            Self::Text | Self::Bool | Self::Day | Self::Hour | Self::Uuid | Self::Custom
        )
    }

    /// Returns the number of characters of every value, if it is fixed.
    pub const fn width(self) -> Option<usize> {
        match self {
            Self::Text | Self::Custom => None,
            Self::Bool => Some(1),
            Self::U8 | Self::I8 => Some(3),
            Self::U16 | Self::I16 => Some(5),
            Self::U32 | Self::I32 | Self::Day => Some(10),
            Self::U64 | Self::I64 => Some(20),
            Self::F64 => Some(16),
            Self::Time => Some(19),
            Self::Hour => Some(13),
            Self::Uuid => Some(36),
        }
    }
}

impl fmt::Display for KeyPartType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
