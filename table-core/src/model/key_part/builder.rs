use super::{KeyPart, KeyWriter};
use crate::error::{Error, Result};
use crate::model::{Shards, ValueError};

/// How a template places a part: its width and the character that ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartFormat {
    /// The width set by the template.
    pub width: Option<usize>,
    /// The separator after the part. The part's text must not contain it.
    pub separator: Option<char>,
}

impl PartFormat {
    /// A part with its default width, at the end of its key.
    pub const PLAIN: Self = Self {
        width: None,
        separator: None,
    };

    /// Returns the format and the width of a part of type `P`. A part with a fixed width needs no separator.
    pub(super) fn for_part<P: KeyPart>(self) -> (Self, Option<usize>) {
        let width = self.width.or(P::WIDTH);
        let separator = if width.is_some() {
            None
        } else {
            self.separator
        };
        (Self { separator, ..self }, width)
    }
}

/// Initial capacity in bytes; most keys fit.
const CAPACITY: usize = 32;

/// Builds a key from literal texts and parts.
///
/// ```
/// use table_core::model::{KeyBuilder, PartFormat};
/// let six = PartFormat { width: Some(6), ..PartFormat::PLAIN };
/// let key = KeyBuilder::new("RowKey", "empid_{id:06}").literal("empid_").part("id", &223u32, six)?;
/// assert_eq!(key.finish(), "empid_000223");
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyBuilder {
    key_name: &'static str,
    template: &'static str,
    writer: KeyWriter,
}

impl KeyBuilder {
    /// Creates an empty key. Its name and template are used in error messages.
    pub fn new(key_name: &'static str, template: &'static str) -> Self {
        let writer = KeyWriter {
            out: String::with_capacity(CAPACITY),
            format: PartFormat::PLAIN,
        };
        Self {
            key_name,
            template,
            writer,
        }
    }

    /// Appends literal text of the template.
    #[must_use]
    pub fn literal(mut self, text: &str) -> Self {
        self.writer.out.push_str(text);
        self
    }

    /// Appends a part.
    ///
    /// # Errors
    /// Fails if the value does not fit its width or range.
    pub fn part<P: KeyPart>(mut self, name: &str, value: &P, format: PartFormat) -> Result<Self> {
        match self.push(value, format) {
            Ok(()) => Ok(self),
            Err(error) => Err(self.invalid(name, error)),
        }
    }

    /// Appends a part in place. After an error the key must not be used.
    pub(crate) fn push<P: KeyPart>(
        &mut self,
        value: &P,
        format: PartFormat,
    ) -> Result<(), ValueError> {
        let start = self.writer.out.len();
        let (format, width) = format.for_part::<P>();
        self.writer.format = format;
        value.encode(&mut self.writer)?;
        let written = self.writer.out.len() - start;
        match width {
            // A custom part that breaks its promise of a width would move the start of the next part, and the key
            // could not be parsed.
            Some(width) if width != written => Err(ValueError::new(
                format!("{width} characters"),
                format_args!("{written} characters"),
            )),
            _ => Ok(()),
        }
    }

    /// Appends the [shard](Shards) number of a text, with `count` shards.
    ///
    /// # Errors
    /// Fails if `count` is not 1 to 1,000.
    pub fn shard(self, count: u16, text: &impl AsRef<str>) -> Result<Self> {
        let shard = Shards::new(count)?.of(text.as_ref());
        self.shard_at(count, shard)
    }

    /// Appends a shard number.
    ///
    /// # Errors
    /// Fails if `count` is not 1 to 1,000.
    pub fn shard_at(self, count: u16, shard: u16) -> Result<Self> {
        let text = Shards::new(count)?.text(shard);
        Ok(self.literal(&text))
    }

    /// Appends the start of a text part, for queries by prefix. The end of the key is open, so no separator follows.
    #[must_use]
    pub(crate) fn text_prefix(mut self, prefix: &str, format: PartFormat) -> Self {
        self.writer.format = format;
        self.writer.text(prefix);
        self
    }

    /// Appends literal text in place.
    pub(crate) fn push_text(&mut self, text: &str) {
        self.writer.out.push_str(text);
    }

    /// Returns the text. It is not yet validated as a key.
    pub fn finish(self) -> String {
        self.writer.out
    }

    fn invalid(&self, name: &str, reason: impl std::fmt::Display) -> Error {
        Error::invalid_key(self.key_name, self.template, format!("{name}: {reason}"))
    }
}
