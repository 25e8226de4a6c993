use std::marker::PhantomData;

/// A property of `E` whose value may be in a blob (`#[large]`): a name for streams, never compared, since a
/// filter would see a reference.
pub struct LargeField<E> {
    name: &'static str,
    of: PhantomData<fn() -> E>,
}

impl<E> LargeField<E> {
    /// The field with this name in the store.
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData }
    }

    /// The name in the store.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<E> Clone for LargeField<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for LargeField<E> {}

impl<E> std::fmt::Debug for LargeField<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LargeField({})", self.name)
    }
}
