use super::RowPrefix;
use crate::model::{KeyBuilder, KeyPart, PartFormat, TextKeyPart};
use crate::store::Result;

/// What the steps of a derived row prefix share: a key so far, or its first error.
#[derive(Debug)]
pub struct PrefixBuilder(Result<KeyBuilder>);

impl PrefixBuilder {
    /// Nothing yet.
    pub fn new(template: &'static str) -> Self {
        Self(Ok(KeyBuilder::new("RowKey", template)))
    }

    /// Appends text of the template.
    #[must_use]
    pub fn literal(self, text: &str) -> Self {
        Self(self.0.map(|key| key.literal(text)))
    }

    /// Appends a whole part.
    #[must_use]
    pub fn part<P: KeyPart>(self, name: &str, value: &P, format: PartFormat) -> Self {
        Self(self.0.and_then(|key| key.part(name, value, format)))
    }

    /// Appends the start of a text part: the last step.
    #[must_use]
    pub fn starting(self, prefix: &str, format: PartFormat) -> Self {
        Self(self.0.map(|key| key.text_prefix(prefix, format)))
    }

    /// The prefix as it is.
    #[must_use]
    pub fn finish<T>(self) -> RowPrefix<T> {
        RowPrefix::from_result(self.0.map(KeyBuilder::finish))
    }
}

/// Text that can start a key part of type `P`.
pub trait PrefixOf<P> {
    /// The text.
    fn as_prefix(&self) -> &str;
}

impl<P: TextKeyPart, S: AsRef<str>> PrefixOf<P> for S {
    fn as_prefix(&self) -> &str {
        self.as_ref()
    }
}
