use std::fmt;
use std::marker::PhantomData;

use crate::query::{Comparison, Filter};

/// A property of `E` that holds a `V`, for filters: `Employee::AGE.gt(30)`.
///
/// The derive macro makes one constant per stored field. An encrypted field gets an
/// [`EncryptedField`] instead, which has no comparisons.
pub struct Field<E, V> {
    name: &'static str,
    of: PhantomData<fn() -> (E, V)>,
}

/// A property of `E` that is encrypted: it can be selected, never compared.
pub struct EncryptedField<E> {
    name: &'static str,
    of: PhantomData<fn() -> E>,
}

/// A filter on entities of type `E`.
pub struct Condition<E> {
    filter: Filter,
    of: PhantomData<fn() -> E>,
}

impl<E, V> Field<E, V> {
    /// The field with this name in the store.
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData }
    }

    /// The name in the store.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<E> EncryptedField<E> {
    /// The field with this name in the store.
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData }
    }

    /// The name in the store.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<E> Condition<E> {
    /// Claims that a filter is about `E`.
    pub const fn new(filter: Filter) -> Self {
        Self { filter, of: PhantomData }
    }

    /// Both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(self.filter.and(other.filter))
    }

    /// One of them holds.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(self.filter.or(other.filter))
    }

    /// The filter.
    pub fn into_filter(self) -> Filter {
        self.filter
    }
}

impl<E> std::ops::Not for Condition<E> {
    type Output = Self;

    fn not(self) -> Self {
        Self::new(!self.filter)
    }
}

impl<E> fmt::Debug for Condition<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({})", self.filter)
    }
}

impl<E> fmt::Debug for EncryptedField<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptedField({})", self.name)
    }
}

impl<E, V> fmt::Debug for Field<E, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({})", self.name)
    }
}

// The comparisons (eq, ne, gt, ge, lt, le, starts_with) join when `Property` does.
#[allow(dead_code)]
type Pending = Comparison;
