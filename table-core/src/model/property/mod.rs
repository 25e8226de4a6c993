mod impls;

pub(crate) use impls::text;

use super::{EdmType, EdmValue, KeyPartType, Properties, ValueError, ValueRef};

/// A Rust type that is stored as one property.
///
/// Derive it for enums (a String, or an Int32 with `#[entity(integer)]`) and for newtypes over a property. A value is stored as one
/// type. Reads widen: they accept an Int32 for an Int64, and an integer for a Double if it is the same number.
///
/// | Rust | stored as |
/// |---|---|
/// | `bool` | Boolean |
/// | `i8`, `i16`, `i32`, `u8`, `u16` | Int32, range-checked when read |
/// | `i64`, `u32`, `u64` | Int64; a `u64` above `i64::MAX` is an error, see [`Padded`](crate::typed::Padded) |
/// | `f64`, `f32` | Double; a Double that no `f32` equals is an error for an `f32` |
/// | `String`, `Box<str>`, `Arc<str>`, `Cow<'static, str>` | String |
/// | `Vec<u8>` | Binary |
/// | `Uuid` | Guid |
/// | `Ticks`, `DateTime<Utc>`, `NaiveDateTime` | DateTime, truncated to 100 ns |
/// | `NaiveDate` | DateTime, its midnight in UTC; another time of day is an error when read |
/// | `std::time::Duration`, `chrono::TimeDelta` | Int64, the number of 100 ns intervals as in a `TimeSpan` of .NET; a remainder is dropped |
/// | `Option<T>` | as `T`; `None` is an absent property |
///
/// ```
/// use table_core::model::{EdmType, ValueError, ValueRef};
/// use table_core::typed::{Property, PropertySink};
///
/// struct Celsius(f64);
///
/// impl Property for Celsius {
///     const TYPE: EdmType = EdmType::Double;
///
///     fn write(&self, sink: PropertySink<'_>) -> Result<(), ValueError> {
///         sink.put(ValueRef::Double(self.0));
///         Ok(())
///     }
///
///     fn read(value: ValueRef<'_>) -> Result<Self, ValueError> {
///         f64::read(value).map(Self)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored as a property",
    label = "not a property type",
    note = "store it as text with `#[entity(text)]` if it has `Display` and `FromStr`, as JSON with `#[entity(json)]` if it has serde's traits, \
            in another way with `#[entity(with = …)]`, as several properties with `#[entity(flatten)]`, or not at all with `#[entity(skip)]`",
    note = "derive `Property` for a newtype or a unit enum"
)]
pub trait Property: Sized + Send + Sync + 'static {
    /// The type in the store.
    const TYPE: EdmType;
    /// Whether the property may be absent.
    const OPTIONAL: bool = false;

    /// The type of a key part with the same values. Programs without the Rust type can then maintain an index of the property.
    /// With [`KeyPartType::Custom`], only programs with the Rust type can: the index is opaque.
    const KEY_TYPE: KeyPartType = KeyPartType::Custom;

    /// Puts the value into the sink. Without a call of [`PropertySink::put`], the property is absent.
    ///
    /// # Errors
    /// Fails if [`TYPE`](Self::TYPE) has no such value.
    fn write(&self, sink: PropertySink<'_>) -> Result<(), ValueError>;

    /// Reads a stored value.
    ///
    /// # Errors
    /// Fails if the value has another type or is out of range.
    fn read(value: ValueRef<'_>) -> Result<Self, ValueError>;

    /// Returns the value of an absent property; `None` if the property must not be absent.
    fn missing() -> Option<Self> {
        None
    }
}

/// Where a [`Property`] puts its value: once, or never.
#[derive(Debug)]
pub struct PropertySink<'a> {
    properties: &'a mut Properties,
    name: &'a str,
    encrypt: bool,
}

impl<'a> PropertySink<'a> {
    /// Creates a sink that appends a property with a new name: see [`Properties::push`].
    #[inline]
    pub const fn new(properties: &'a mut Properties, name: &'a str, encrypt: bool) -> Self {
        Self {
            properties,
            name,
            encrypt,
        }
    }

    /// Stores the value.
    #[inline]
    pub fn put(self, value: ValueRef<'_>) {
        self.properties.push(self.name, value, self.encrypt);
    }
}

/// Returns the value that `write` puts into its sink; `None` if it puts none.
pub(crate) fn written(
    write: impl FnOnce(PropertySink<'_>) -> Result<(), ValueError>,
) -> Result<Option<EdmValue>, ValueError> {
    let mut properties = Properties::new();
    write(PropertySink::new(&mut properties, "", false))?;
    Ok(properties.iter().next().map(|p| p.value().to_owned()))
}

impl<T: Property> Property for Option<T> {
    const TYPE: EdmType = {
        assert!(
            !T::OPTIONAL,
            "an `Option` of an `Option` cannot be stored: both would be absent"
        );
        T::TYPE
    };
    const OPTIONAL: bool = true;
    const KEY_TYPE: KeyPartType = T::KEY_TYPE;

    #[inline]
    fn write(&self, sink: PropertySink<'_>) -> Result<(), ValueError> {
        self.as_ref().map_or(Ok(()), |value| value.write(sink))
    }

    #[inline]
    fn read(value: ValueRef<'_>) -> Result<Self, ValueError> {
        T::read(value).map(Some)
    }

    #[inline]
    fn missing() -> Option<Self> {
        Some(None)
    }
}

/// A [`Property`] that is text, so that filters may ask for a prefix.
#[diagnostic::on_unimplemented(message = "`{Self}` is not text, so it has no prefix")]
pub trait Text: Property {}

impl Text for String {}
impl Text for Box<str> {}
impl Text for std::sync::Arc<str> {}
impl Text for std::borrow::Cow<'static, str> {}
