use std::fmt;
use std::marker::PhantomData;

use super::EntityKey;
use crate::model::{KeyBuilder, KeyPart, PartFormat, TextKeyPart};
use crate::store::Result;

/// A prefix of RowKeys of type `T`: the result of `T::row_prefix()` and of the methods that add key parts.
///
/// If a part cannot be encoded, the use of the prefix fails, so that the methods can be chained.
pub struct RowPrefix<T> {
    text: Result<String>,
    of: PhantomData<fn() -> T>,
}

impl<T> RowPrefix<T> {
    /// Creates a prefix from text as it is stored, with the escapes of the [key encoding](crate::model::KeyPart), without a check that RowKeys of
    /// the type start with it. `T::row_prefix()` takes values, and escapes them.
    ///
    /// ```
    /// use table_core::model::Entity;
    /// use table_core::typed::RowPrefix;
    /// let prefix = RowPrefix::<Entity>::escaped("empid_");
    /// assert_eq!(prefix.into_text()?, "empid_");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn escaped(text: impl Into<String>) -> Self {
        Self::from_result(Ok(text.into()))
    }

    /// Creates a prefix, or keeps the error of its encoding for the use of the prefix.
    pub(crate) const fn from_result(text: Result<String>) -> Self {
        Self {
            text,
            of: PhantomData,
        }
    }

    /// Converts to a prefix of another type without a check.
    #[must_use]
    pub fn cast<U>(self) -> RowPrefix<U> {
        RowPrefix::from_result(self.text)
    }

    /// Converts to the text.
    ///
    /// # Errors
    /// Fails if a key part could not be encoded.
    pub fn into_text(self) -> Result<String> {
        self.text
    }
}

/// Converts to the complete RowKey, for ranges whose last part has no fixed width.
impl<T> From<EntityKey<T>> for RowPrefix<T> {
    fn from(key: EntityKey<T>) -> Self {
        Self::escaped(key.key().row())
    }
}

impl<T> Clone for RowPrefix<T> {
    fn clone(&self) -> Self {
        Self::from_result(self.text.clone())
    }
}

impl<T> fmt::Debug for RowPrefix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Ok(text) => write!(f, "RowPrefix({text:?})"),
            Err(error) => write!(f, "RowPrefix({error})"),
        }
    }
}

/// A prefix of PartitionKeys of type `T`: the result of `T::partition_prefix()` and of the methods that add key parts.
///
/// If a part cannot be encoded, the use of the prefix fails, so that the methods can be chained.
pub struct PartitionPrefix<T> {
    text: Result<String>,
    of: PhantomData<fn() -> T>,
}

impl<T> PartitionPrefix<T> {
    /// Creates a prefix from text as it is stored, with the escapes of the [key encoding](crate::model::KeyPart), without a check that
    /// PartitionKeys of the type start with it. `T::partition_prefix()` takes values, and escapes them.
    ///
    /// ```
    /// use table_core::model::Entity;
    /// use table_core::typed::PartitionPrefix;
    /// let prefix = PartitionPrefix::<Entity>::escaped("contoso~2Fnorth");
    /// assert_eq!(prefix.into_text()?, "contoso~2Fnorth");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn escaped(text: impl Into<String>) -> Self {
        Self::from_result(Ok(text.into()))
    }

    const fn from_result(text: Result<String>) -> Self {
        Self {
            text,
            of: PhantomData,
        }
    }

    /// Converts to a prefix of another type without a check.
    #[must_use]
    pub fn cast<U>(self) -> PartitionPrefix<U> {
        PartitionPrefix::from_result(self.text)
    }

    /// Converts to the text.
    ///
    /// # Errors
    /// Fails if a key part could not be encoded.
    pub fn into_text(self) -> Result<String> {
        self.text
    }
}

impl<T> Clone for PartitionPrefix<T> {
    fn clone(&self) -> Self {
        Self::from_result(self.text.clone())
    }
}

impl<T> fmt::Debug for PartitionPrefix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Ok(text) => write!(f, "PartitionPrefix({text:?})"),
            Err(error) => write!(f, "PartitionPrefix({error})"),
        }
    }
}

/// Builds the prefix of a key for generated code, step by step. It keeps the first error.
#[derive(Debug)]
pub struct PrefixBuilder(Result<KeyBuilder>);

impl PrefixBuilder {
    /// Starts with an empty prefix. `key_name` and `template` are for errors.
    pub fn new(key_name: &'static str, template: &'static str) -> Self {
        Self(Ok(KeyBuilder::new(key_name, template)))
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

    /// Appends the start of a text part. Must be the last step.
    #[must_use]
    pub fn starting(self, prefix: &str, format: PartFormat) -> Self {
        Self(self.0.map(|key| key.text_prefix(prefix, format)))
    }

    /// Returns the prefix of RowKeys.
    #[must_use]
    pub fn finish_row<T>(self) -> RowPrefix<T> {
        RowPrefix::from_result(self.0.map(KeyBuilder::finish))
    }

    /// Returns the prefix of PartitionKeys.
    #[must_use]
    pub fn finish_partition<T>(self) -> PartitionPrefix<T> {
        PartitionPrefix::from_result(self.0.map(KeyBuilder::finish))
    }
}

/// A text that is the start of a key part of type `P`.
pub trait PrefixOf<P> {
    /// Returns the text.
    fn as_prefix(&self) -> &str;
}

impl<P: TextKeyPart, S: AsRef<str>> PrefixOf<P> for S {
    fn as_prefix(&self) -> &str {
        self.as_ref()
    }
}
