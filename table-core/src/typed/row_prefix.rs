use std::fmt;
use std::marker::PhantomData;

use super::EntityKey;
use crate::store::Result;

/// The start of the row keys of type `T`: made by `T::row_prefix()` and the key parts that follow.
///
/// A part that cannot be encoded is reported when the prefix is used, so that parts can be chained.
pub struct RowPrefix<T> {
    text: Result<String>,
    of: PhantomData<fn() -> T>,
}

impl<T> RowPrefix<T> {
    /// Claims that row keys of the type start with this text.
    ///
    /// ```
    /// use table_core::model::Entity;
    /// use table_core::typed::RowPrefix;
    /// let prefix = RowPrefix::<Entity>::new("empid_");
    /// assert_eq!(prefix.into_text()?, "empid_");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn new(text: impl Into<String>) -> Self {
        Self::from_result(Ok(text.into()))
    }

    /// A prefix whose encoding may have failed.
    pub const fn from_result(text: Result<String>) -> Self {
        Self { text, of: PhantomData }
    }

    /// Claims that row keys of another type start so as well.
    #[must_use]
    pub fn cast<U>(self) -> RowPrefix<U> {
        RowPrefix::from_result(self.text)
    }

    /// The text.
    ///
    /// # Errors
    /// A key part does not fit its width.
    pub fn into_text(self) -> Result<String> {
        self.text
    }
}

/// The whole row key, for ranges whose last part has no fixed width, as one of a newtype.
impl<T> From<EntityKey<T>> for RowPrefix<T> {
    fn from(key: EntityKey<T>) -> Self {
        Self::new(key.key().row())
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
