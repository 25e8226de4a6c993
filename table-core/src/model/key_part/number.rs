use std::cmp::Reverse;

use super::{KeyPart, KeyPartType, KeyText, KeyWriter};
use crate::model::ValueError;

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
    what: &'static str,
    from: impl Fn(u64) -> Option<T>,
) -> Result<T, ValueError> {
    from(number).ok_or_else(|| text.expected(format!("the digits of a value of type {what}")))
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
