use super::PartFormat;
use super::escape;
use crate::model::ValueError;

/// Where a [`KeyPart`](super::KeyPart) writes itself.
#[derive(Clone, Debug)]
pub struct KeyWriter {
    pub(crate) out: String,
    pub(crate) format: PartFormat,
}

/// The piece of a key that holds one [`KeyPart`](super::KeyPart).
#[derive(Clone, Copy, Debug)]
pub struct KeyText<'a> {
    pub(crate) text: &'a str,
    pub(crate) format: PartFormat,
}

/// The digits of the largest `u64`.
const MOST_DIGITS: usize = 20;

impl KeyWriter {
    /// Writes text, escaping what a key or the separator after the part forbids. A prefix of the
    /// text is written as a prefix.
    pub fn text(&mut self, text: &str) {
        escape::push(&mut self.out, text, self.format.stop);
    }

    /// Writes a number with leading zeros, as wide as the template says, otherwise `digits` wide.
    ///
    /// # Errors
    /// It has more digits.
    pub fn number(&mut self, value: u64, digits: usize) -> Result<(), ValueError> {
        self.digits(value, digits, |d| d)
    }

    /// [`number`](Self::number) with every digit subtracted from nine, so that larger numbers sort
    /// first.
    ///
    /// # Errors
    /// It has more digits.
    pub fn number_reversed(&mut self, value: u64, digits: usize) -> Result<(), ValueError> {
        self.digits(value, digits, |d| 9 - d)
    }

    fn digits(&mut self, value: u64, digits: usize, turn: impl Fn(u8) -> u8) -> Result<(), ValueError> {
        let width = self.format.width.unwrap_or(digits).min(MOST_DIGITS);
        let (mut text, mut rest) = ([0; MOST_DIGITS], value);
        for place in text[..width].iter_mut().rev() {
            *place = (rest % 10) as u8;
            rest /= 10;
        }
        if rest > 0 {
            return Err(ValueError::new(format!("at most {width} digits"), value));
        }
        self.out.extend(text[..width].iter().map(|d| char::from(b'0' + turn(*d))));
        Ok(())
    }
}

impl<'a> KeyText<'a> {
    /// The text as it stands in the key.
    pub const fn as_str(&self) -> &'a str {
        self.text
    }

    /// Back from [`KeyWriter::text`].
    ///
    /// # Errors
    /// Something is escaped that need not be, or the other way round.
    #[inline]
    pub fn text(&self) -> Result<String, ValueError> {
        escape::read(self.text, self.format.stop)
    }

    /// Back from [`KeyWriter::number`].
    ///
    /// # Errors
    /// The text is not that many digits, or too large for a `u64`.
    #[inline]
    pub fn number(&self, digits: usize) -> Result<u64, ValueError> {
        self.digits(digits, |d| d)
    }

    /// Back from [`KeyWriter::number_reversed`].
    ///
    /// # Errors
    /// The text is not that many digits, or too large for a `u64`.
    pub fn number_reversed(&self, digits: usize) -> Result<u64, ValueError> {
        self.digits(digits, |d| 9 - d)
    }

    /// Any other text, as an error.
    pub fn expected(&self, what: impl Into<std::borrow::Cow<'static, str>>) -> ValueError {
        ValueError::new(what, format_args!("{:?}", self.text))
    }

    #[inline]
    fn digits(&self, digits: usize, turn: impl Fn(u8) -> u8) -> Result<u64, ValueError> {
        let width = self.format.width.unwrap_or(digits);
        let number = if self.text.len() == width { self.read_digits(turn) } else { None };
        number.ok_or_else(
            #[cold]
            || self.expected(format!("a number of {width} digits")),
        )
    }

    #[inline]
    fn read_digits(&self, turn: impl Fn(u8) -> u8) -> Option<u64> {
        let mut number = 0u64;
        for (place, byte) in self.text.bytes().enumerate() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            let digit = u64::from(turn(digit));
            number = match place {
                // Any 19 digits are a `u64`.
                0..19 => number * 10 + digit,
                _ => number.checked_mul(10)?.checked_add(digit)?,
            };
        }
        Some(number)
    }
}
