//! Key parts: values as text that sorts and can be parsed again.
//!
//! `docs/key-encoding.md` lists every encoding. A template such as `"{department}_{id:06}"` describes a key;
//! the derive macro checks it, [`KeyBuilder`] writes such a key and [`KeyParser`] parses it.

mod builder;
mod parser;
mod part_type;
#[cfg(test)]
mod tests;
mod writer;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{
    DateTime, Duration, DurationRound as _, NaiveDate, NaiveDateTime, Timelike as _, Utc,
};
use uuid::Uuid;

use super::ValueError;
use crate::model::Ticks;

pub use builder::{KeyBuilder, PartFormat};
pub use parser::KeyParser;
pub use part_type::KeyPartType;
pub use std::cmp::Reverse;
pub use writer::{KeyText, KeyWriter};

/// A value that can be part of a PartitionKey or RowKey.
///
/// Derive it for unit enums (text) and for newtypes of a key part. Encodings are canonical: `decode` accepts
/// exactly the texts that `encode` writes, so a key and its parts always agree.
///
/// ```
/// use table_core::model::{KeyPart, KeyText, KeyWriter, ValueError};
///
/// /// A grid square, three letters and digits wide.
/// struct Square([char; 3]);
///
/// impl KeyPart for Square {
///     const WIDTH: Option<usize> = Some(3);
///     const ENCODING: &'static str = "grid square";
///
///     fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
///         out.text(&self.0.iter().collect::<String>());
///         Ok(())
///     }
///
///     fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
///         let text = text.text()?;
///         let chars: Vec<char> = text.chars().collect();
///         chars.try_into().map(Self).map_err(|_| ValueError::new("3 characters", text))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key",
    label = "not a key part",
    note = "integers, `f64`, `bool`, `String`, `Uuid`, `NaiveDate`, times and `Reverse` of numbers and times can; \
            derive `KeyPart` for a newtype or a unit enum",
    note = "an `Option` cannot: every entity has its whole key"
)]
pub trait KeyPart: Sized {
    /// The number of ASCII characters of every value; `None` if it varies.
    const WIDTH: Option<usize>;
    /// Whether a template may set the width: `{id:06}`.
    const PADS: bool = false;
    /// The library's encoding of the text, or [`KeyPartType::Custom`] for the type's own encoding. An index with a
    /// custom part in its keys is *opaque*: only programs that have the type can maintain it.
    const PART_TYPE: KeyPartType = KeyPartType::Custom;
    /// Whether the encoding is that of [`PART_TYPE`](Self::PART_TYPE) in descending order. True for
    /// [`Reverse`].
    const REVERSED: bool = false;
    /// The name of a custom encoding. The name is part of an index definition, so that a changed encoding is
    /// detected: choose a new name whenever the output of `encode` changes.
    const ENCODING: &'static str = "custom";

    /// Writes the value.
    ///
    /// # Errors
    /// Fails if the value does not fit the width or the range of the encoding.
    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError>;

    /// Parses the value.
    ///
    /// # Errors
    /// Fails if the text is not the encoding of a value.
    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError>;
}

/// Derives `KeyPart` for a newtype, which is encoded like its value, or for a unit enum, which is encoded as
/// text by the same rules as `Property`.
///
/// ```
/// # use table_core::prelude::*;
/// #[derive(KeyPart)]
/// struct EmployeeId(u32);
///
/// #[derive(TableEntity)]
/// struct Employee {
///     #[partition_key]
///     department: String,
///     #[row_key(format = "empid_{}")]
///     id: EmployeeId,
/// }
/// # fn main() -> table_core::Result<()> {
/// assert_eq!(Employee::key("Sales", EmployeeId(7))?.key().row(), "empid_0000000007");
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "derive")]
pub use table_derive::KeyPart;

/// A key part that can also be written in descending order: see [`Reverse`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be reversed in a key",
    note = "`Reverse` takes integers, `f64`, `DateTime<Utc>`, `NaiveDateTime` and `Ticks`"
)]
pub trait ReverseKeyPart: KeyPart {
    /// Writes the value so that larger values sort first, in [`KeyPart::WIDTH`] characters.
    ///
    /// # Errors
    /// Fails if the value does not fit the width or the range of the encoding.
    fn encode_reversed(&self, out: &mut KeyWriter) -> Result<(), ValueError>;

    /// Parses the text of [`encode_reversed`](Self::encode_reversed).
    ///
    /// # Errors
    /// Fails if the text is not the encoding of a value.
    fn decode_reversed(text: &KeyText<'_>) -> Result<Self, ValueError>;
}

impl<T: ReverseKeyPart> KeyPart for Reverse<T> {
    const WIDTH: Option<usize> = T::WIDTH;
    const PADS: bool = T::PADS;
    const PART_TYPE: KeyPartType = T::PART_TYPE;
    const REVERSED: bool = true;
    const ENCODING: &'static str = T::ENCODING;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        self.0.encode_reversed(out)
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        T::decode_reversed(text).map(Self)
    }
}

/// Implements both traits for an integer type as a number of `$digits` digits. `$to` and `$from` must
/// preserve the order.
macro_rules! number {
    ($($int:ty, $variant:ident, $digits:literal, $pads:literal, $to:expr, $from:expr;)*) => {$(
        impl KeyPart for $int {
            const WIDTH: Option<usize> = Some($digits);
            const PADS: bool = $pads;
            const PART_TYPE: KeyPartType = KeyPartType::$variant;

            #[inline]
            fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
                out.number($to(*self), $digits)
            }

            #[inline]
            fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
                from_number(text, text.number($digits)?, stringify!($int), $from)
            }
        }

        impl ReverseKeyPart for $int {
            fn encode_reversed(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
                out.number_reversed($to(*self), $digits)
            }

            fn decode_reversed(text: &KeyText<'_>) -> Result<Self, ValueError> {
                from_number(text, text.number_reversed($digits)?, stringify!($int), $from)
            }
        }
    )*};
}

#[inline]
fn from_number<T>(
    text: &KeyText<'_>,
    number: u64,
    type_name: &'static str,
    from: impl Fn(u64) -> Option<T>,
) -> Result<T, ValueError> {
    from(number).ok_or_else(|| text.expected(format!("the digits of a value of type {type_name}")))
}

// A template may pad unsigned integers. Signed integers are offset by their minimum, which flips the sign
// bit, and always have their default width.
number! {
    u8, U8, 3, true, u64::from, |n| Self::try_from(n).ok();
    u16, U16, 5, true, u64::from, |n| Self::try_from(n).ok();
    u32, U32, 10, true, u64::from, |n| Self::try_from(n).ok();
    u64, U64, 20, true, |n: Self| n, Some;
    i8, I8, 3, false, |n: Self| u64::from(n as u8 ^ 0x80), |n| Some((u8::try_from(n).ok()? ^ 0x80) as Self);
    i16, I16, 5, false, |n: Self| u64::from(n as u16 ^ 0x8000), |n| Some((u16::try_from(n).ok()? ^ 0x8000) as Self);
    i32, I32, 10, false, |n: Self| u64::from(n as u32 ^ 1 << 31), |n| Some((u32::try_from(n).ok()? ^ 1 << 31) as Self);
    i64, I64, 20, false, |n: Self| n as u64 ^ 1 << 63, |n: u64| Some((n ^ 1 << 63) as Self);
}

impl KeyPart for bool {
    const WIDTH: Option<usize> = Some(1);
    const PART_TYPE: KeyPartType = KeyPartType::Bool;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        out.text(if *self { "1" } else { "0" });
        Ok(())
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        match text.as_str() {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(text.expected("`0` or `1`")),
        }
    }
}

/// A key part that is text, so that queries by prefix are possible.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not text, so its key part has no prefixes",
    note = "pass the whole value, or end the prefix before this part"
)]
pub trait TextKeyPart: KeyPart {}

macro_rules! text {
    ($($text:ty),*) => {$(
        impl KeyPart for $text {
            const WIDTH: Option<usize> = None;
            const PART_TYPE: KeyPartType = KeyPartType::Text;

            fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
                out.text(self);
                Ok(())
            }

            #[inline]
            fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
                text.text().map(Into::into)
            }
        }

        impl TextKeyPart for $text {}
    )*};
}

text!(String, Box<str>, Arc<str>, Cow<'static, str>);

impl KeyPart for Uuid {
    const WIDTH: Option<usize> = Some(uuid::fmt::Hyphenated::LENGTH);
    const PART_TYPE: KeyPartType = KeyPartType::Uuid;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        out.text(self.hyphenated().encode_lower(&mut Self::encode_buffer()));
        Ok(())
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        let wrong = || text.expected("a UUID in lower case with hyphens");
        // The parser also accepts upper case, braces and digits without hyphens. A key has one text, so they are refused.
        let uuid = Self::try_parse(text.as_str()).map_err(|_| wrong())?;
        let canonical = uuid.hyphenated().encode_lower(&mut Self::encode_buffer()) == text.as_str();
        canonical.then_some(uuid).ok_or_else(wrong)
    }
}

/// An hour of a day in UTC: the key part of `{at:hour}`.
///
/// ```
/// use table_core::model::{Hour, KeyBuilder, PartFormat, Ticks};
/// let key = KeyBuilder::new("RowKey", "{at:hour}").part("at", &Hour::of(Ticks::MIN), PartFormat::PLAIN)?;
/// assert_eq!(key.finish(), "0001-01-01T00");
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(DateTime<Utc>);

impl Hour {
    /// Returns the hour that contains a time.
    pub fn of(time: Ticks) -> Self {
        let time = time.to_datetime();
        Self(time.duration_trunc(Duration::hours(1)).unwrap_or(time))
    }

    /// Returns the day of the hour.
    pub fn day(self) -> NaiveDate {
        self.0.date_naive()
    }

    /// Returns the start of the hour.
    pub const fn start(self) -> DateTime<Utc> {
        self.0
    }
}

/// `YYYY-MM-DDTHH`.
impl KeyPart for Hour {
    const WIDTH: Option<usize> = Some(13);
    const PART_TYPE: KeyPartType = KeyPartType::Hour;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        out.text(&self.to_string());
        Ok(())
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        parse_hour(text.as_str()).ok_or_else(|| text.expected(HOUR_FORM))
    }
}

const HOUR_FORM: &str = "an hour as YYYY-MM-DDTHH";

/// Parses the text that `Display` writes, and no other form of the hour.
fn parse_hour(text: &str) -> Option<Hour> {
    let time = NaiveDateTime::parse_from_str(&format!("{text}:00"), "%Y-%m-%dT%H:%M").ok()?;
    let hour = Hour::of(Ticks::checked(time.and_utc()).ok()?);
    (hour.to_string() == text).then_some(hour)
}

/// `YYYY-MM-DDTHH`.
impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{:02}", self.day(), self.0.hour())
    }
}

impl FromStr for Hour {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse_hour(text).ok_or_else(|| ValueError::new(HOUR_FORM, format_args!("{text:?}")))
    }
}

/// Number of hexadecimal digits of an `f64`.
const F64_DIGITS: usize = 16;
const SIGN_BIT: u64 = 1 << 63;

/// Maps a number to bits that sort like the numbers. Returns `None` for NaN, which has no order. `-0.0`
/// equals `0.0` and has the same bits.
fn sortable_bits(value: f64) -> Option<u64> {
    // Adding zero converts negative zero to zero.
    let bits = (value + 0.0).to_bits();
    // IEEE 754 numbers of one sign are ordered like their bits. Setting the sign bit puts positive numbers above negative
    // ones; inverting all bits reverses the order of the negative ones.
    (!value.is_nan()).then_some(if bits & SIGN_BIT == 0 {
        bits | SIGN_BIT
    } else {
        !bits
    })
}

/// Reverses [`sortable_bits`].
fn from_sortable_bits(bits: u64) -> f64 {
    f64::from_bits(if bits & SIGN_BIT == 0 {
        !bits
    } else {
        bits & !SIGN_BIT
    })
}

/// Writes a number. `map` inverts the bits for descending order.
fn write_f64(value: f64, out: &mut KeyWriter, map: impl Fn(u64) -> u64) -> Result<(), ValueError> {
    let bits = sortable_bits(value).ok_or_else(|| ValueError::new("a number", value))?;
    out.text(&format!("{:0F64_DIGITS$X}", map(bits)));
    Ok(())
}

/// Parses the text of [`write_f64`] with the same `map`.
fn read_f64(text: &KeyText<'_>, map: impl Fn(u64) -> u64) -> Result<f64, ValueError> {
    let digits = text.as_str();
    let is_upper_hex = |b: u8| matches!(b, b'0'..=b'9' | b'A'..=b'F');
    let is_canonical = digits.len() == F64_DIGITS && digits.bytes().all(is_upper_hex);
    let bits = u64::from_str_radix(digits, 16)
        .ok()
        .filter(|_| is_canonical)
        .map(map);
    // NaN and negative zero are never written, so they are refused.
    let value = bits
        .map(from_sortable_bits)
        .filter(|value| sortable_bits(*value) == bits);
    value.ok_or_else(|| text.expected("the 16 hexadecimal digits of a number"))
}

/// The 64 bits of the number as 16 upper-case hexadecimal digits. The sign bit is flipped for numbers from
/// zero up, and all bits for negative numbers, so that texts sort like the numbers. NaN is refused.
impl KeyPart for f64 {
    const WIDTH: Option<usize> = Some(F64_DIGITS);
    const PART_TYPE: KeyPartType = KeyPartType::F64;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        write_f64(*self, out, |bits| bits)
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        read_f64(text, |bits| bits)
    }
}

impl ReverseKeyPart for f64 {
    fn encode_reversed(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        write_f64(*self, out, |bits| !bits)
    }

    fn decode_reversed(text: &KeyText<'_>) -> Result<Self, ValueError> {
        read_f64(text, |bits| !bits)
    }
}

/// Number of digits of `DateTime.MaxValue.Ticks`.
const TICKS_WIDTH: usize = 19;

impl KeyPart for Ticks {
    const WIDTH: Option<usize> = Some(TICKS_WIDTH);
    const PART_TYPE: KeyPartType = KeyPartType::Time;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        out.number(self.get().unsigned_abs(), TICKS_WIDTH)
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        let ticks = i64::try_from(text.number(TICKS_WIDTH)?).ok();
        ticks
            .and_then(Self::new)
            .ok_or_else(|| text.expected("ticks up to the year 9999"))
    }
}

/// `String.Format("{0:D19}", DateTime.MaxValue.Ticks - ticks)`: the key of the log tail pattern.
impl ReverseKeyPart for Ticks {
    fn encode_reversed(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        out.number(self.inverted().unsigned_abs(), TICKS_WIDTH)
    }

    fn decode_reversed(text: &KeyText<'_>) -> Result<Self, ValueError> {
        let inverted = i64::try_from(text.number(TICKS_WIDTH)?).ok();
        inverted
            .and_then(Self::from_inverted)
            .ok_or_else(|| text.expected("inverted ticks up to the year 9999"))
    }
}

macro_rules! as_ticks {
    ($($time:ty, $utc:ident, $back:ident;)*) => {$(
        /// Like [`Ticks`]. Precision finer than 100 ns is dropped.
        impl KeyPart for $time {
            const WIDTH: Option<usize> = Ticks::WIDTH;
            const PART_TYPE: KeyPartType = KeyPartType::Time;

            fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
                Ticks::checked(self.$utc())?.encode(out)
            }

            fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
                Ticks::decode(text).map(Ticks::$back)
            }
        }

        impl ReverseKeyPart for $time {
            fn encode_reversed(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
                Ticks::checked(self.$utc())?.encode_reversed(out)
            }

            fn decode_reversed(text: &KeyText<'_>) -> Result<Self, ValueError> {
                Ticks::decode_reversed(text).map(Ticks::$back)
            }
        }
    )*};
}

as_ticks! {
    DateTime<Utc>, to_utc, to_datetime;
    NaiveDateTime, and_utc, to_naive;
}

/// `YYYY-MM-DD`, years 0 to 9999.
impl KeyPart for NaiveDate {
    const WIDTH: Option<usize> = Some(10);
    const PART_TYPE: KeyPartType = KeyPartType::Day;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        let text = self.to_string();
        // Other years print a sign or more digits (`+10000-01-01`), and their texts would not sort like the days.
        if text.len() != 10 {
            return Err(ValueError::new("a year from 0 to 9999", text));
        }
        out.text(&text);
        Ok(())
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        // The parser also accepts days such as `2013-1-1`. A key has one text, so they are refused.
        let date = text.as_str().parse::<Self>().ok();
        date.filter(|d| d.to_string() == text.as_str())
            .ok_or_else(|| text.expected("a date as YYYY-MM-DD"))
    }
}
