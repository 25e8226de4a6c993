use std::fmt;
use std::marker::PhantomData;

use super::width::widened;
use super::{Comparable, ExactWidth, Operand, Plain, PrefixComparable, Text};
use crate::model::property::written;
use crate::query::{Comparison, Filter};
use crate::store::{Error, Result};

/// A property of `E` that holds a `V`, for filters: `Employee::AGE.gt(30)`.
///
/// The derive macro makes one constant per stored field. An encrypted field gets an
/// [`EncryptedField`] instead, and a field of a key a [`KeyField`](super::KeyField), which have no comparisons. An
/// absent property matches no comparison, [`ne`](Self::ne) included: `!AGE.eq(30)` finds it, `AGE.ne(30)` does not.
///
/// A filter sees what is stored. Of a type with a `previous` version it sees older rows as they are, under the names
/// and types of their version, though a read converts them:
/// [`Table::upgrade_all`](super::Table::upgrade_all) brings them up to date.
///
/// # Integers of both widths
/// A field of `i64`, `u32` or `u64` is stored as an Int64 and reads Int32s too: those that other clients write for
/// small numbers, as Node and Python do, and those of rows from when the field was an `i32`. To the service an Int64
/// literal equals no Int32. So that a filter finds whatever a read would take, each comparison of such a field
/// becomes two, `Age gt 40L or Age gt 40`, which both count towards the service's 15 in a filter.
/// [`exact_width`](Self::exact_width) makes it one, of Int64s alone.
///
/// A field of `f64` or `f32` reads whole numbers too, which JavaScript clients write as Int32s: `120.0` becomes `120`. The
/// service documents only that a literal of the property's type gives valid results; that a Double literal finds no
/// integer is *assumed*, and that an Int32 literal finds Int64s and Doubles. So a comparison becomes two, `Price gt 9.5 or Price ge 10`,
/// or three beyond the Int32s.
///
/// ```
/// use table_core::typed::Field;
/// struct Employee;
/// const AGE: Field<Employee, u32> = Field::new("Age");
/// const CITY: Field<Employee, String> = Field::new("City");
/// let filter = AGE.gt(30).and(CITY.starts_with("New")).into_filter()?;
/// assert_eq!(filter.to_string(), "(Age gt 30L or Age gt 30) and (City ge 'New' and City lt 'Nex')");
/// # Ok::<(), table_core::Error>(())
/// ```
pub struct Field<E, V, C = Plain> {
    name: &'static str,
    of: Of<E, V, C>,
}

/// Neither owns an `E`, a `V` nor a `C`.
type Of<E, V, C> = PhantomData<fn() -> (E, V, C)>;

/// A property of `E` that is encrypted: it can be selected, never compared.
pub struct EncryptedField<E> {
    name: &'static str,
    of: PhantomData<fn() -> E>,
}

/// A flattened field of `E`: its properties are those of `G`.
///
/// ```
/// use table_core::typed::{Field, FieldGroup};
/// struct Employee;
/// struct Address;
/// const ADDRESS: FieldGroup<Employee, Address> = FieldGroup::new();
/// const CITY: Field<Address, String> = Field::new("City");
/// assert!(ADDRESS.field(CITY).eq("Redmond").into_filter().is_ok());
/// ```
pub struct FieldGroup<E, G> {
    of: PhantomData<fn() -> (E, G)>,
}

/// A filter on entities of type `E`.
///
/// A value that cannot be stored cannot be compared either: the error comes with
/// [`into_filter`](Self::into_filter), when the query is run.
pub struct Condition<E> {
    filter: Result<Filter>,
    of: PhantomData<fn() -> E>,
}

impl<E, V, C> Field<E, V, C> {
    /// The field with this name in the store.
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData }
    }

    /// The name in the store.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Its name in the store, for [`TableQuery::select`](super::TableQuery::select) and the like.
impl<E, V, C> AsRef<str> for Field<E, V, C> {
    fn as_ref(&self) -> &str {
        self.name
    }
}

/// Its name in the store.
impl<E> AsRef<str> for EncryptedField<E> {
    fn as_ref(&self) -> &str {
        self.name
    }
}

/// What a filter may compare with an encrypted property: nothing. Never implemented.
#[diagnostic::on_unimplemented(
    message = "an encrypted property cannot be compared in a filter",
    label = "the store sees only its ciphertext",
    note = "read the entities by other conditions and compare the decrypted values, or keep an index for it"
)]
pub trait ComparesWithEncrypted {
    /// Never called.
    fn into_condition<E>(self) -> Condition<E>;
}

macro_rules! no_comparisons {
    ($($name:ident)*) => {$(
        /// Does not compile: the store sees only the ciphertext.
        #[doc(hidden)]
        pub fn $name<V: ComparesWithEncrypted>(self, value: V) -> Condition<E> {
            value.into_condition()
        }
    )*};
}

/// So that a comparison is explained, instead of taken for one of `Iterator`.
impl<E> EncryptedField<E> {
    no_comparisons! { eq ne gt ge lt le starts_with }
}

/// The operators, by a method `compare` of fields `E, V, C`.
macro_rules! comparisons {
    () => {
        comparisons! {
            /// The property equals the value.
            eq Equal;
            /// The property differs from the value.
            ne NotEqual;
            /// The property is greater than the value.
            gt GreaterThan;
            /// The property is the value or greater.
            ge GreaterThanOrEqual;
            /// The property is less than the value.
            lt LessThan;
            /// The property is the value or less.
            le LessThanOrEqual;
        }
    };
    ($($(#[$doc:meta])* $name:ident $comparison:ident;)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(self, value: impl Operand<V>) -> Condition<E>
        where
            C: Comparable<V>,
        {
            self.compare(Comparison::$comparison, value)
        }
    )+};
}
pub(super) use comparisons;

impl<E, V, C> Field<E, V, C> {
    comparisons!();

    /// A comparison with the operator as a value.
    #[must_use]
    pub fn compare(self, comparison: Comparison, value: impl Operand<V>) -> Condition<E>
    where
        C: Comparable<V>,
    {
        self.compare_stored(comparison, value).map(widened)
    }

    /// The field for comparisons of the width that its type is stored with, one each.
    ///
    /// For `i64`, `u32`, `u64`, `f64` and `f32` where every row has an Int64 or a Double, as all that this library writes for such a field do, and a
    /// filter comes near the limit of comparisons. An Int32 is not found. Of other fields the comparisons stay as
    /// they are.
    ///
    /// ```
    /// use table_core::model::Entity;
    /// use table_core::typed::Field;
    /// struct Employee;
    /// const AGE: Field<Employee, u32> = Field::new("Age");
    /// let theirs = Entity::new("Sales", "223")?.with("Age", 41);
    /// assert!(AGE.gt(40).into_filter()?.matches(&theirs));
    /// let filter = AGE.exact_width().gt(40).into_filter()?;
    /// assert!(!filter.matches(&theirs));
    /// assert_eq!(filter.to_string(), "Age gt 40L");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub const fn exact_width(self) -> ExactWidth<E, V, C> {
        ExactWidth(self)
    }

    /// A comparison with the value as it is stored.
    pub(super) fn compare_stored(self, comparison: Comparison, value: impl Operand<V>) -> Condition<E>
    where
        C: Comparable<V>,
    {
        let value = written(|sink| C::write(&value.into_operand(), sink));
        let filter = match value {
            Ok(Some(value)) => Ok(Filter::compare(self.name, comparison, value)),
            Ok(None) => Err(Error::invalid_value(self.name, "an absent value cannot be compared")),
            Err(error) => Err(Error::invalid_value(self.name, error.to_string())),
        };
        Condition { filter, of: PhantomData }
    }

    /// The text starts with `prefix`. Two comparisons.
    #[must_use]
    pub fn starts_with(self, prefix: &str) -> Condition<E>
    where
        V: Text,
        C: PrefixComparable<V>,
    {
        Condition::new(Filter::starts_with(self.name, prefix))
    }
}

impl<E, G> FieldGroup<E, G> {
    /// The properties of `G` in `E`.
    #[expect(clippy::new_without_default, reason = "a constant of the derive macro")]
    pub const fn new() -> Self {
        Self { of: PhantomData }
    }

    /// A field of the group, as a field of the entity.
    pub fn field<V, C>(self, field: Field<G, V, C>) -> Field<E, V, C> {
        Field::new(field.name)
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
        Self { filter: Ok(filter), of: PhantomData }
    }

    /// Both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.join(other, Filter::and)
    }

    /// One of them holds.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.join(other, Filter::or)
    }

    /// The filter.
    ///
    /// # Errors
    /// A value of a comparison cannot be stored.
    pub fn into_filter(self) -> Result<Filter> {
        self.filter
    }

    pub(super) fn map(self, how: impl FnOnce(Filter) -> Filter) -> Self {
        Self { filter: self.filter.map(how), of: PhantomData }
    }

    fn join(self, other: Self, how: fn(Filter, Filter) -> Filter) -> Self {
        let filter = self.filter.and_then(|left| Ok(how(left, other.filter?)));
        Self { filter, of: PhantomData }
    }
}

impl<E> std::ops::Not for Condition<E> {
    type Output = Self;

    fn not(self) -> Self {
        self.map(|filter| !filter)
    }
}

impl<E> fmt::Debug for Condition<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.filter {
            Ok(filter) => write!(f, "Condition({filter})"),
            Err(error) => write!(f, "Condition({error})"),
        }
    }
}

impl<E, V, C> Clone for Field<E, V, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, V, C> Copy for Field<E, V, C> {}

impl<E> Clone for EncryptedField<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for EncryptedField<E> {}

impl<E, G> Clone for FieldGroup<E, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, G> Copy for FieldGroup<E, G> {}

impl<E, G> fmt::Debug for FieldGroup<E, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FieldGroup")
    }
}

impl<E> fmt::Debug for EncryptedField<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptedField({})", self.name)
    }
}

impl<E, V, C> fmt::Debug for Field<E, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({})", self.name)
    }
}
