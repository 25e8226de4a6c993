use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::width::widened;
use super::{Codec, Comparable, ExactWidth, Plain, PrefixComparable, PropertySchema, Text};
use crate::model::property::written;
use crate::model::{EdmType, EdmValue};
use crate::query::{Comparison, Filter};
use crate::store::{Error, Result};

/// A property of `E` with values of type `V`, for filters: `Employee::AGE.gt(30)`.
///
/// The derive macro generates a constant for each stored field. For an encrypted field it generates an
/// [`EncryptedField`] instead, and for a field of a key a [`KeyField`](super::KeyField); both have no comparisons.
///
/// No comparison matches an absent property, not even [`ne`](Self::ne): `!AGE.eq(30)` finds entities without the
/// property, `AGE.ne(30)` does not.
///
/// A filter compares stored values. Rows of a `previous` schema version are compared under the names and types of
/// their version, although a read converts them. `upgrade_all` of every table converts the stored
/// rows.
///
/// # Integers of both widths
/// A field of type `i64`, `u32` or `u64` is stored as Int64. A read accepts Int32 too: clients for Node and Python write
/// small numbers as Int32, and the field may have been an `i32` before. At the service an Int64 literal does not match
/// an Int32. A filter must find every entity that a read accepts, so each comparison becomes two:
/// `Age gt 40L or Age gt 40`. Both count towards the service's limit of 15 comparisons in a filter.
/// [`exact_width`](Self::exact_width) compares with Int64 only.
///
/// A read of an `f64` or `f32` accepts integers too, because JavaScript clients write `120.0` as the Int32 `120`. The
/// service documents only that a literal of the property's type gives valid results. This library *assumes* that a
/// Double literal does not match integers, and that an Int32 literal matches Int64 and Double values. So a comparison
/// becomes two, `Price gt 9.5 or Price ge 10`, or three for values outside of the Int32 range.
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

/// The field does not own an `E`, `V` or `C`.
type Of<E, V, C> = PhantomData<fn() -> (E, V, C)>;

/// An encrypted property of `E`. It can be selected, but not compared.
pub struct EncryptedField<E> {
    name: &'static str,
    of: PhantomData<fn() -> E>,
}

/// A flattened field of `E`. Its properties are the properties of `G`.
///
/// ```
/// use table_core::typed::{Field, FieldGroup};
/// struct Employee;
/// struct Address;
/// const ADDRESS: FieldGroup<Employee, Address> = FieldGroup::new();
/// const CITY: Field<Address, String> = Field::new("City");
/// assert!(ADDRESS.field(CITY).eq("Redmond").into_filter().is_ok());
/// ```
///
/// With a prefix, `#[entity(flatten(prefix = "Home"))]`, `Employee::HOME.field(Address::CITY)` is the property `HomeCity`.
pub struct FieldGroup<E, G> {
    prefix: &'static str,
    /// The properties of the group with the prefix.
    properties: &'static [PropertySchema],
    of: PhantomData<fn() -> (E, G)>,
}

/// A filter of entities of type `E`.
///
/// If a compared value cannot be stored, [`into_filter`](Self::into_filter) returns the error, when the query is run.
pub struct Condition<E> {
    filter: Result<Filter>,
    of: PhantomData<fn() -> E>,
}

/// A condition of a filter of `E`: a [`Condition`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a condition of `{E}`",
    label = "not a condition",
    note = "join conditions with `.and(…)` and `.or(…)`: `a.and(b)` in place of `a && b`, which joins values of `bool`",
    note = "`raw_filter` takes a `Filter`, which names properties by text"
)]
pub trait IntoCondition<E> {
    /// Converts to the condition.
    fn into_condition(self) -> Condition<E>;
}

impl<E> IntoCondition<E> for Condition<E> {
    fn into_condition(self) -> Self {
        self
    }
}

/// Returns the name in the store, for example for [`TableQuery::select`](super::TableQuery::select).
impl<E, V, C> AsRef<str> for Field<E, V, C> {
    fn as_ref(&self) -> &str {
        self.name
    }
}

/// Returns the name in the store.
impl<E> AsRef<str> for EncryptedField<E> {
    fn as_ref(&self) -> &str {
        self.name
    }
}

/// Bound of the comparisons of an encrypted property. No type implements it, so a comparison does not compile, with an
/// explanation.
#[diagnostic::on_unimplemented(
    message = "an encrypted property cannot be compared in a filter",
    label = "the store sees only its ciphertext",
    note = "read the entities by other conditions and compare the decrypted values, or keep an index for it"
)]
pub trait ComparesWithEncrypted {
    /// Never called.
    fn into_condition<E>(self) -> Condition<E>;
}

/// Comparison methods that do not compile, with the explanation of the trait `$bound`.
macro_rules! no_comparisons {
    ($bound:ident: $($name:ident)*) => {$(
        /// Does not compile: a filter cannot compare this property.
        #[doc(hidden)]
        pub fn $name<V: $bound>(self, value: V) -> Condition<E> {
            value.into_condition()
        }
    )*};
}

/// Without these methods the compiler would suggest the comparisons of `Iterator`.
impl<E> EncryptedField<E> {
    no_comparisons! { ComparesWithEncrypted: eq ne gt ge lt le starts_with }
}

/// The comparison methods of a field, which call its method `compare`.
macro_rules! comparisons {
    () => {
        comparisons! {
            /// Matches if the property equals the value.
            eq Equal;
            /// Matches if the property differs from the value.
            ne NotEqual;
            /// Matches if the property is greater than the value.
            gt GreaterThan;
            /// Matches if the property is greater than or equal to the value.
            ge GreaterThanOrEqual;
            /// Matches if the property is less than the value.
            lt LessThan;
            /// Matches if the property is less than or equal to the value.
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

    /// Compares with an operator that is given as a value.
    #[must_use]
    pub fn compare(self, comparison: Comparison, value: impl Operand<V>) -> Condition<E>
    where
        C: Comparable<V>,
    {
        self.compare_stored(comparison, value).map(widened)
    }

    /// Returns the field with comparisons of the stored type of `V` only: each comparison stays one comparison.
    ///
    /// Use it for `i64`, `u32`, `u64`, `f64` and `f32` if a filter comes near the limit of comparisons and every row
    /// has an Int64 or a Double. Rows that this library writes do. Values that another client has stored as Int32 are
    /// not found. For fields of other types it has no effect.
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

    /// Compares with the stored form of the value.
    pub(super) fn compare_stored(
        self,
        comparison: Comparison,
        value: impl Operand<V>,
    ) -> Condition<E>
    where
        C: Comparable<V>,
    {
        let value = written(|sink| C::write(&value.into_operand(), sink));
        let filter = match value {
            Ok(Some(value)) => Ok(Filter::compare(self.name, comparison, value)),
            Ok(None) => Err(Error::invalid_value(
                self.name,
                "an absent value cannot be compared",
            )),
            Err(error) => Err(Error::invalid_value(self.name, error.to_string())),
        };
        Condition {
            filter,
            of: PhantomData,
        }
    }

    /// Matches if the entity does not have the property: the field is `None`. Counts as 2 comparisons.
    ///
    /// ```
    /// use table_core::model::Entity;
    /// use table_core::typed::Field;
    /// struct Employee;
    /// const NICKNAME: Field<Employee, String> = Field::new("Nickname");
    /// let absent = NICKNAME.is_absent().into_filter()?;
    /// assert_eq!(absent.to_string(), "not (Nickname eq '' or Nickname ne '')");
    /// let ken = Entity::new("Sales", "223")?;
    /// assert!(absent.matches(&ken));
    /// assert!(!absent.matches(&ken.with("Nickname", "")));
    /// # Ok::<(), table_core::Error>(())
    /// ```
    #[must_use]
    pub fn is_absent(self) -> Condition<E>
    where
        C: Codec<V>,
    {
        // No comparison matches an absent property, and each value either equals the literal or differs from it.
        let any = some_value(C::TYPE);
        let equal = Filter::compare(self.name, Comparison::Equal, any.clone());
        let other = Filter::compare(self.name, Comparison::NotEqual, any);
        Condition::new(!(equal.or(other)))
    }

    /// Matches if the text starts with `prefix`. Counts as 2 comparisons.
    #[must_use]
    pub fn starts_with(self, prefix: &str) -> Condition<E>
    where
        V: Text,
        C: PrefixComparable<V>,
    {
        Condition::new(Filter::starts_with(self.name, prefix))
    }
}

/// Returns any value of a type.
fn some_value(edm_type: EdmType) -> EdmValue {
    match edm_type {
        EdmType::Binary => EdmValue::Binary(Vec::new()),
        EdmType::Boolean => EdmValue::Boolean(false),
        EdmType::DateTime => EdmValue::DateTime(chrono::DateTime::UNIX_EPOCH.into()),
        EdmType::Double => EdmValue::Double(0.0),
        EdmType::Guid => EdmValue::Guid(uuid::Uuid::nil()),
        EdmType::Int32 => EdmValue::Int32(0),
        EdmType::Int64 => EdmValue::Int64(0),
        EdmType::String => EdmValue::String(String::new()),
    }
}

impl<E, G> FieldGroup<E, G> {
    /// Creates the flattened field.
    #[expect(clippy::new_without_default, reason = "a constant of the derive macro")]
    pub const fn new() -> Self {
        Self::with_prefix("", &[])
    }

    /// Creates the flattened field of a group whose names have a prefix. `properties` are the properties of the group, with the
    /// prefix in their names.
    pub const fn with_prefix(prefix: &'static str, properties: &'static [PropertySchema]) -> Self {
        Self {
            prefix,
            properties,
            of: PhantomData,
        }
    }

    /// Returns a field of the group as a field of the entity.
    pub fn field<V, C>(self, field: Field<G, V, C>) -> Field<E, V, C> {
        let mut names = self.properties.iter().map(|property| property.name);
        let prefixed = names.find(|name| name.strip_prefix(self.prefix) == Some(field.name));
        Field::new(prefixed.unwrap_or(field.name))
    }
}

impl<E> Condition<E> {
    /// Creates a condition from a filter, without a check that its names belong to `E`.
    pub const fn new(filter: Filter) -> Self {
        Self {
            filter: Ok(filter),
            of: PhantomData,
        }
    }

    /// Returns a condition that matches if both conditions match.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.join(other, Filter::and)
    }

    /// Returns a condition that matches if at least one of the conditions matches.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.join(other, Filter::or)
    }

    /// Converts to the filter.
    ///
    /// # Errors
    /// Fails if a compared value cannot be stored.
    pub fn into_filter(self) -> Result<Filter> {
        self.filter
    }

    pub(super) fn map(self, convert: impl FnOnce(Filter) -> Filter) -> Self {
        Self {
            filter: self.filter.map(convert),
            of: PhantomData,
        }
    }

    fn join(self, other: Self, join: fn(Filter, Filter) -> Filter) -> Self {
        let filter = self.filter.and_then(|left| Ok(join(left, other.filter?)));
        Self {
            filter,
            of: PhantomData,
        }
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

impl<E, G> fmt::Debug for FieldGroup<E, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FieldGroup")
    }
}

/// A field of a key of `E`. A key contains it in encoded form with other fields, so filters cannot compare it by name. Find
/// entities by `T::key(…)`, `.partition(T::partition(…))` or `.rows(T::row_prefix()…)`.
pub struct KeyField<E> {
    name: &'static str,
    of: PhantomData<fn() -> E>,
}

/// Bound of the comparisons of a key field. No type implements it, so a comparison does not compile, with an explanation.
#[diagnostic::on_unimplemented(
    message = "a filter cannot compare a field of a key",
    label = "the store has it as a part of the PartitionKey or the RowKey",
    note = "use keys: `table.get(T::key(…)?)`, or `query().partition(T::partition(…)?)` and \
            `.rows(T::row_prefix().…)`, which cost less than a filter"
)]
pub trait ComparesWithKey {
    /// Never called.
    fn into_condition<E>(self) -> Condition<E>;
}

/// With these methods the compiler explains a comparison.
impl<E> KeyField<E> {
    no_comparisons! { ComparesWithKey: eq ne gt ge lt le starts_with }
}

impl<E> KeyField<E> {
    /// Creates a field with this name in the struct.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            of: PhantomData,
        }
    }
}

/// A property of `E` whose value may be in a blob (`#[large]`). It identifies the property for streams. Filters cannot compare
/// it, because the row may contain a reference to the blob instead of the value.
pub struct LargeField<E> {
    name: &'static str,
    of: PhantomData<fn() -> E>,
}

/// A property of `E` whose value may be in several properties (`#[entity(split)]`). Filters cannot compare it, because a row
/// with a long value has its parts instead of the property.
pub struct SplitField<E> {
    name: &'static str,
    of: PhantomData<fn() -> E>,
}

/// Bound of the comparisons of a split property. No type implements it, so a comparison does not compile, with an
/// explanation.
#[diagnostic::on_unimplemented(
    message = "a split property cannot be compared in a filter",
    label = "a long value is stored in several properties",
    note = "keep what filters need in a property of its own, such as the first words or a hash of the value"
)]
pub trait ComparesWithSplit {
    /// Never called.
    fn into_condition<E>(self) -> Condition<E>;
}

/// With these methods the compiler explains a comparison.
impl<E> SplitField<E> {
    no_comparisons! { ComparesWithSplit: eq ne gt ge lt le starts_with }
}

/// Methods of the fields that are identified by their name in the store.
macro_rules! stored_name {
    ($($field:ident<$($param:ident),+>),+) => {$(
        impl<$($param),+> $field<$($param),+> {
            /// Creates a field with this name in the store.
            pub const fn new(name: &'static str) -> Self {
                Self { name, of: PhantomData }
            }

            /// Returns the name in the store.
            pub const fn name(&self) -> &'static str {
                self.name
            }
        }
    )+};
}

stored_name!(Field<E, V, C>, EncryptedField<E>, LargeField<E>, SplitField<E>);

/// A field is a name, so it can be copied and printed whatever its type parameters are. `derive` would require the traits of them.
macro_rules! copied {
    ($($field:ident<$($param:ident),+>),+) => {$(
        impl<$($param),+> Clone for $field<$($param),+> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($param),+> Copy for $field<$($param),+> {}
    )+};
}

macro_rules! printed {
    ($($field:ident<$($param:ident),+>),+) => {$(
        impl<$($param),+> fmt::Debug for $field<$($param),+> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($field), "({})"), self.name)
            }
        }
    )+};
}

copied!(Field<E, V, C>, FieldGroup<E, G>, EncryptedField<E>, KeyField<E>, LargeField<E>, SplitField<E>);
printed!(Field<E, V, C>, EncryptedField<E>, KeyField<E>, LargeField<E>, SplitField<E>);

/// An argument for a `V` in comparisons, keys and patches: a `V`, a `&V`, or, for owned text and bytes, a `&str` or
/// `&[u8]`.
#[diagnostic::on_unimplemented(
    message = "expected a `{V}`, found a `{Self}`",
    note = "give a `{V}` or a `&{V}`; text may be given as `&str`, bytes as `&[u8]`"
)]
pub trait Operand<V> {
    /// Converts to the value.
    fn into_operand(self) -> V;
}

impl<V> Operand<V> for V {
    fn into_operand(self) -> V {
        self
    }
}

impl<V: Clone> Operand<V> for &V {
    fn into_operand(self) -> V {
        self.clone()
    }
}

macro_rules! borrowed {
    ($($from:ty => $to:ty),*) => {$(
        impl Operand<$to> for $from {
            fn into_operand(self) -> $to {
                self.to_owned().into()
            }
        }
    )*};
}

borrowed!(&str => String, &str => Box<str>, &str => Arc<str>, &str => Cow<'static, str>, &[u8] => Vec<u8>);
