use super::{KeyPart, KeyText, PartFormat};
use crate::error::{Error, Result};
use crate::model::{Key, ValueError};

/// Parses a key that a [`KeyBuilder`](super::KeyBuilder) wrote.
///
/// ```
/// use table_core::model::{Key, KeyParser, PartFormat};
/// let key = Key::new("Sales", "empid_000223")?;
/// let six = PartFormat { width: Some(6), ..PartFormat::PLAIN };
/// let mut parser = KeyParser::row("Employee", "empid_{id:06}", &key);
/// parser.literal("empid_")?;
/// assert_eq!(parser.part::<u32>("id", six)?, 223);
/// parser.finish()?;
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Debug)]
pub struct KeyParser<'a> {
    entity: &'static str,
    key_name: &'static str,
    template: &'static str,
    key: &'a Key,
    rest: &'a str,
    /// Whether errors have a text: not for callers that only ask whether a key fits. The texts take longer than the parsing.
    describes: bool,
}

impl<'a> KeyParser<'a> {
    /// Starts at the PartitionKey of an entity. The entity's name and the template are used in error
    /// messages.
    #[inline]
    pub fn partition(entity: &'static str, template: &'static str, key: &'a Key) -> Self {
        Self {
            entity,
            key_name: "PartitionKey",
            template,
            key,
            rest: key.partition(),
            describes: true,
        }
    }

    /// Starts at the RowKey of an entity. The entity's name and the template are used in error messages.
    #[inline]
    pub fn row(entity: &'static str, template: &'static str, key: &'a Key) -> Self {
        Self {
            entity,
            key_name: "RowKey",
            template,
            key,
            rest: key.row(),
            describes: true,
        }
    }

    /// Sets whether errors have a text.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn describing(self, describes: bool) -> Self {
        Self { describes, ..self }
    }

    /// Consumes literal text of the template.
    ///
    /// # Errors
    /// Fails if the key continues with other text.
    #[inline]
    pub fn literal(&mut self, text: &str) -> Result<()> {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.mismatch(|| {
                ValueError::new(format!("{text:?}"), format_args!("{:?}", self.rest))
            })),
        }
    }

    /// Parses a part.
    ///
    /// # Errors
    /// Fails if the text is not the encoding of a value.
    #[inline(always)]
    pub fn part<P: KeyPart>(&mut self, name: &str, format: PartFormat) -> Result<P> {
        let (format, width) = format.for_part::<P>();
        let end = match (width, format.separator) {
            // The width ends beyond the text or within a character, so the text is not an encoding of any
            // value.
            (Some(width), _) if !self.rest.is_char_boundary(width) => self.rest.len(),
            (Some(width), _) => width,
            // The writer escapes the separator within the text, so the first one ends the part.
            (None, Some(separator)) => self.rest.find(separator).unwrap_or(self.rest.len()),
            (None, None) => self.rest.len(),
        };
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        P::decode(&KeyText { text, format }).map_err(
            #[cold]
            |e| {
                self.mismatch(|| ValueError::new(format!("{} for {name}", e.expected()), e.found()))
            },
        )
    }

    /// Parses a part that occurred before, in the other key or earlier in this key.
    ///
    /// # Errors
    /// Fails if the value differs.
    pub fn repeated_part<P: KeyPart + PartialEq>(
        &mut self,
        name: &str,
        format: PartFormat,
        first: &P,
    ) -> Result<()> {
        if self.part::<P>(name, format)? == *first {
            return Ok(());
        }
        Err(self.mismatch(|| {
            ValueError::new(
                format!("the same {name} in all places of the key"),
                "another value",
            )
        }))
    }

    /// Checks that the key ends here.
    ///
    /// # Errors
    /// Fails if the key is longer than the template.
    #[inline]
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self
            .mismatch(|| ValueError::new("the end of the key", format_args!("{:?}", self.rest))))
    }

    #[cold]
    fn mismatch(&self, error: impl FnOnce() -> ValueError) -> Error {
        if !self.describes {
            return Error::decode(self.entity, "", "", "", "");
        }
        let error = error();
        let expected = format!("{} as in {:?}", error.expected(), self.template);
        Error::decode(
            self.entity,
            self.key,
            self.key_name,
            expected,
            error.found(),
        )
    }
}
