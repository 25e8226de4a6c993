use std::fmt;
use std::marker::PhantomData;

use super::Condition;

/// A field of a key of `E`. A key holds it encoded, beside others, so it is not compared by name: entities are found by
/// `T::key(…)`, `.partition(T::partition(…))`, `.rows(T::row_prefix()…)`.
pub struct KeyField<E> {
    name: &'static str,
    of: PhantomData<fn() -> E>,
}

/// What a filter may compare with a field of a key: nothing. Never implemented.
#[diagnostic::on_unimplemented(
    message = "a field of a key is not compared in a filter",
    label = "the store has it as a part of the PartitionKey or the RowKey",
    note = "ask for keys: `table.get(T::key(…)?)`, or `query().partition(T::partition(…)?)` and \
            `.rows(T::row_prefix().…)`, which cost less than a filter"
)]
pub trait ComparesWithKey {
    /// Never called.
    fn into_condition<E>(self) -> Condition<E>;
}

macro_rules! no_comparisons {
    ($($name:ident)*) => {$(
        /// Does not compile: keys are asked for by keys.
        #[doc(hidden)]
        pub fn $name<V: ComparesWithKey>(self, value: V) -> Condition<E> {
            value.into_condition()
        }
    )*};
}

/// So that a comparison is explained.
impl<E> KeyField<E> {
    no_comparisons! { eq ne gt ge lt le starts_with }
}

impl<E> KeyField<E> {
    /// The field of this name in the struct.
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData }
    }
}

impl<E> Clone for KeyField<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for KeyField<E> {}

impl<E> fmt::Debug for KeyField<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyField({})", self.name)
    }
}
