use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Property, PropertySink};
use crate::model::property::text;
use crate::model::{EdmType, KeyPart, KeyText, KeyWriter, PartFormat, ValueError, ValueRef};

/// Stores a `T` as one property: [`Plain`], [`Json`], [`AsText`], [`Padded`], or your own codec with
/// `#[entity(with = MyCodec)]`.
///
/// ```
/// use std::time::Duration;
/// use table_core::model::{EdmType, ValueError, ValueRef};
/// use table_core::typed::{Codec, Property, PropertySink};
///
/// /// A duration as milliseconds.
/// struct Millis;
///
/// impl Codec<Duration> for Millis {
///     const TYPE: EdmType = EdmType::Int64;
///
///     fn write(value: &Duration, sink: PropertySink<'_>) -> Result<(), ValueError> {
///         let millis = i64::try_from(value.as_millis());
///         millis.map_err(|_| ValueError::new("at most 2^63 ms", format!("{value:?}")))?.write(sink)
///     }
///
///     fn read(value: ValueRef<'_>) -> Result<Duration, ValueError> {
///         u64::read(value).map(Duration::from_millis)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not store a `{T}`",
    note = "`Json` stores types with serde's `Serialize` and `DeserializeOwned`, `Padded` stores unsigned \
            integers; implement `Codec<{T}>` for your own codec"
)]
pub trait Codec<T> {
    /// The EDM type of the property.
    const TYPE: EdmType;
    /// Whether the property may be absent.
    const OPTIONAL: bool = false;

    /// Puts the value into the sink. If it puts nothing, the property is absent.
    ///
    /// # Errors
    /// Fails if the value cannot be stored.
    fn write(value: &T, sink: PropertySink<'_>) -> Result<(), ValueError>;

    /// Converts a stored value.
    ///
    /// # Errors
    /// Fails if the stored value has another type or is out of range.
    fn read(value: ValueRef<'_>) -> Result<T, ValueError>;

    /// Returns the value for an absent property; `None` if the property must not be absent.
    fn missing() -> Option<T> {
        None
    }
}

/// A [`Codec`] whose stored values have the order of the values, so that filters can compare them.
#[diagnostic::on_unimplemented(
    message = "a property stored by `{Self}` cannot be compared in a filter",
    note = "the stored text does not have the order of the values; implement `Comparable` for your own \
            codec if it does"
)]
pub trait Comparable<T>: Codec<T> {}

/// A [`Comparable`] codec that keeps prefixes: if a text starts with a prefix, the stored text starts with the stored
/// prefix. Filters can then select prefixes.
#[diagnostic::on_unimplemented(
    message = "a property stored by `{Self}` has no prefixes in a filter",
    note = "the stored text need not start with the prefix of the value; implement `PrefixComparable` for your own \
            codec if it does"
)]
pub trait PrefixComparable<T>: Comparable<T> {}

/// Stores a [`Property`] as its EDM type. The default codec of a field.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl<T: Property> Codec<T> for Plain {
    const TYPE: EdmType = T::TYPE;
    const OPTIONAL: bool = T::OPTIONAL;

    #[inline]
    fn write(value: &T, sink: PropertySink<'_>) -> Result<(), ValueError> {
        value.write(sink)
    }

    #[inline]
    fn read(value: ValueRef<'_>) -> Result<T, ValueError> {
        T::read(value)
    }

    #[inline]
    fn missing() -> Option<T> {
        T::missing()
    }
}

impl<T: Property> Comparable<T> for Plain {}
impl<T: Property> PrefixComparable<T> for Plain {}

/// Stores a value as JSON text: `#[entity(json)]`. A value whose JSON is `null` is stored as an absent property.
///
/// JSON has no NaN and no infinity; serde writes them as `null`. A write fails if the value could not be read back for
/// this reason. An `Option` of such a number is read as `None`.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Codec<T> for Json {
    const TYPE: EdmType = EdmType::String;

    fn write(value: &T, sink: PropertySink<'_>) -> Result<(), ValueError> {
        let json = serde_json::to_string(value)
            .map_err(|e| ValueError::new("a value with a JSON form", e))?;
        // serde_json writes NaN as `null`, from which no number can be read.
        if json.contains("null") {
            serde_json::from_str::<T>(&json).map_err(|e| {
                ValueError::new(
                    "a value whose JSON can be read back (no NaN, no infinity)",
                    e,
                )
            })?;
        }
        if json != "null" {
            sink.put(ValueRef::String(&json));
        }
        Ok(())
    }

    fn read(value: ValueRef<'_>) -> Result<T, ValueError> {
        let describe = || format!("JSON for {}", std::any::type_name::<T>());
        serde_json::from_str(text(value)?).map_err(|e| ValueError::new(describe(), e))
    }

    fn missing() -> Option<T> {
        serde_json::from_str("null").ok()
    }
}

/// Stores a value as the text of its `Display`, and reads it by its `FromStr`: `#[entity(text)]`. For decimal numbers, URLs, versions and
/// addresses.
///
/// A write fails if the text cannot be read back, or is then printed as another text. Filters cannot compare such a property, because the
/// order of the texts need not be the order of the values.
///
/// ```
/// use std::net::IpAddr;
/// use table_core::prelude::*;
///
/// #[derive(TableEntity)]
/// struct Host {
///     #[partition_key]
///     site: String,
///     #[row_key]
///     name: String,
///     #[entity(text)]
///     address: IpAddr,
///     #[entity(text)]
///     gateway: Option<IpAddr>,
/// }
///
/// let (site, name) = ("London".to_owned(), "web1".to_owned());
/// let host = Host { site, name, address: [10, 0, 0, 7].into(), gateway: None };
/// assert_eq!(host.to_entity()?.get("address"), Some(ValueRef::String("10.0.0.7")));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AsText;

impl<T> Codec<T> for AsText
where
    T: fmt::Display + FromStr<Err: fmt::Display> + Send + Sync + 'static,
{
    const TYPE: EdmType = EdmType::String;

    fn write(value: &T, sink: PropertySink<'_>) -> Result<(), ValueError> {
        let written = value.to_string();
        let read: T = parsed(&written)?;
        if read.to_string() != written {
            let expected = "a value whose text can be read back as the same value";
            return Err(ValueError::new(
                expected,
                format_args!("{written:?}, which is read back as another value"),
            ));
        }
        sink.put(ValueRef::String(&written));
        Ok(())
    }

    fn read(value: ValueRef<'_>) -> Result<T, ValueError> {
        parsed(text(value)?)
    }
}

fn parsed<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, ValueError> {
    let describe = || format!("the text of a {}", std::any::type_name::<T>());
    text.parse()
        .map_err(|error| ValueError::new(describe(), format_args!("{text:?}: {error}")))
}

/// Stores an `Option<T>` by a codec of `T`: `None` is an absent property.
///
/// ```
/// use std::net::IpAddr;
/// use table_core::typed::{AsText, Codec, Optional};
/// assert_eq!(<Optional<AsText> as Codec<Option<IpAddr>>>::missing(), Some(None));
/// ```
pub struct Optional<C>(PhantomData<fn() -> C>);

impl<T, C: Codec<T>> Codec<Option<T>> for Optional<C> {
    const TYPE: EdmType = C::TYPE;
    const OPTIONAL: bool = true;

    fn write(value: &Option<T>, sink: PropertySink<'_>) -> Result<(), ValueError> {
        value.as_ref().map_or(Ok(()), |value| C::write(value, sink))
    }

    fn read(value: ValueRef<'_>) -> Result<Option<T>, ValueError> {
        C::read(value).map(Some)
    }

    fn missing() -> Option<Option<T>> {
        Some(None)
    }
}

impl<C> Default for Optional<C> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<C> fmt::Debug for Optional<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Optional")
    }
}

/// Stores an unsigned integer as a String with leading zeros, in the width of the type. Use it for `u64` values above
/// `i64::MAX`. Filters can compare the values.
#[derive(Clone, Copy, Debug)]
pub struct Padded;

/// The integers that [`Padded`] stores: `u16`, `u32`, `u64`.
pub trait PaddedInteger: KeyPart + Send + Sync + 'static {}

impl PaddedInteger for u16 {}
impl PaddedInteger for u32 {}
impl PaddedInteger for u64 {}

impl<T: PaddedInteger> Codec<T> for Padded {
    const TYPE: EdmType = EdmType::String;

    fn write(value: &T, sink: PropertySink<'_>) -> Result<(), ValueError> {
        let mut digits = KeyWriter {
            out: String::new(),
            format: PartFormat::PLAIN,
        };
        value.encode(&mut digits)?;
        sink.put(ValueRef::String(&digits.out));
        Ok(())
    }

    fn read(value: ValueRef<'_>) -> Result<T, ValueError> {
        T::decode(&KeyText {
            text: text(value)?,
            format: PartFormat::PLAIN,
        })
    }
}

impl<T: PaddedInteger> Comparable<T> for Padded {}

impl<T: PaddedInteger> Codec<Option<T>> for Padded {
    const TYPE: EdmType = EdmType::String;
    const OPTIONAL: bool = true;

    fn write(value: &Option<T>, sink: PropertySink<'_>) -> Result<(), ValueError> {
        value
            .as_ref()
            .map_or(Ok(()), |value| Self::write(value, sink))
    }

    fn read(value: ValueRef<'_>) -> Result<Option<T>, ValueError> {
        Self::read(value).map(Some)
    }

    fn missing() -> Option<Option<T>> {
        Some(None)
    }
}
