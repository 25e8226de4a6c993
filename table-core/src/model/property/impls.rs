use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};
use uuid::Uuid;

use super::{Property, PropertySink};
use crate::model::ticks::PER_SECOND;
use crate::model::{EdmType, KeyPartType, Ticks, ValueError, ValueRef};

/// Implements [`Property`] for a type from how it is written and read.
macro_rules! property {
    ($($rust:ty => $edm:ident as $part:ident, $self:ident: $write:expr, $value:ident: $read:expr;)*) => {$(
        impl Property for $rust {
            const TYPE: EdmType = EdmType::$edm;
            const KEY_TYPE: KeyPartType = KeyPartType::$part;

            #[inline]
            fn write(&self, sink: PropertySink<'_>) -> Result<(), ValueError> {
                let $self = self;
                sink.put(ValueRef::$edm($write));
                Ok(())
            }

            #[inline]
            fn read(value: ValueRef<'_>) -> Result<Self, ValueError> {
                let $value = value;
                $read
            }
        }
    )*};
}

property! {
    bool => Boolean as Bool, v: *v, value: match value {
        ValueRef::Boolean(v) => Ok(v),
        other => Err(type_mismatch(EdmType::Boolean, other)),
    };
    i8 => Int32 as I8, v: i32::from(*v), value: narrow(int32(value)?);
    i16 => Int32 as I16, v: i32::from(*v), value: narrow(int32(value)?);
    i32 => Int32 as I32, v: *v, value: int32(value);
    u8 => Int32 as U8, v: i32::from(*v), value: narrow(int32(value)?);
    u16 => Int32 as U16, v: i32::from(*v), value: narrow(int32(value)?);
    i64 => Int64 as I64, v: *v, value: int64(value);
    u32 => Int64 as U32, v: i64::from(*v), value: narrow(int64(value)?);
    u64 => Int64 as U64, v: signed(*v)?, value: narrow(int64(value)?);
    f64 => Double as F64, v: *v, value: double(value);
    f32 => Double as Custom, v: f64::from(*v), value: single(double(value)?);
    Vec<u8> => Binary as Custom, v: v, value: match value {
        ValueRef::Binary(v) => Ok(v.to_vec()),
        other => Err(type_mismatch(EdmType::Binary, other)),
    };
    Uuid => Guid as Uuid, v: *v, value: match value {
        ValueRef::Guid(v) => Ok(v),
        other => Err(type_mismatch(EdmType::Guid, other)),
    };
    Ticks => DateTime as Time, v: *v, value: ticks(value);
    DateTime<Utc> => DateTime as Time, v: Ticks::checked(*v)?, value: ticks(value).map(Ticks::to_datetime);
    NaiveDateTime => DateTime as Time, v: Ticks::checked(v.and_utc())?, value: ticks(value).map(Ticks::to_naive);
    NaiveDate => DateTime as Day, v: midnight(*v)?, value: day(ticks(value)?);
    Duration => Int64 as Custom, v: intervals(*v)?, value: duration(int64(value)?);
    TimeDelta => Int64 as Custom, v: signed_intervals(*v)?, value: Ok(delta(int64(value)?));
    String => String as Text, v: v, value: text(value).map(str::to_owned);
    Box<str> => String as Text, v: v, value: text(value).map(Into::into);
    Arc<str> => String as Text, v: v, value: text(value).map(Into::into);
    Cow<'static, str> => String as Text, v: v, value: text(value).map(|v| Cow::Owned(v.to_owned()));
}

#[cold]
fn type_mismatch(expected: EdmType, found: ValueRef<'_>) -> ValueError {
    ValueError::new(expected.name(), found.edm_type())
}

#[inline]
fn int32(value: ValueRef<'_>) -> Result<i32, ValueError> {
    match value {
        ValueRef::Int32(v) => Ok(v),
        other => Err(type_mismatch(EdmType::Int32, other)),
    }
}

#[inline]
fn int64(value: ValueRef<'_>) -> Result<i64, ValueError> {
    match value {
        ValueRef::Int64(v) => Ok(v),
        ValueRef::Int32(v) => Ok(v.into()),
        other => Err(type_mismatch(EdmType::Int64, other)),
    }
}

#[inline]
fn double(value: ValueRef<'_>) -> Result<f64, ValueError> {
    match value {
        ValueRef::Double(v) => Ok(v),
        ValueRef::Int32(v) => Ok(v.into()),
        ValueRef::Int64(v) => exact_double(v),
        other => Err(type_mismatch(EdmType::Double, other)),
    }
}

/// Converts an Int64 to the Double that is the same number. Every integer up to 2^53 has one, and some larger integers.
fn exact_double(value: i64) -> Result<f64, ValueError> {
    let double = value as f64;
    // The largest integers are rounded to 2^63, which is not an `i64`.
    let is_same = double < -(i64::MIN as f64) && double as i64 == value;
    is_same
        .then_some(double)
        .ok_or_else(|| ValueError::new("an Int64 that is exactly a Double", value))
}

#[inline]
fn ticks(value: ValueRef<'_>) -> Result<Ticks, ValueError> {
    match value {
        ValueRef::DateTime(v) => Ok(v),
        other => Err(type_mismatch(EdmType::DateTime, other)),
    }
}

fn midnight(day: NaiveDate) -> Result<Ticks, ValueError> {
    Ticks::checked(day.and_time(NaiveTime::MIN).and_utc())
}

fn day(time: Ticks) -> Result<NaiveDate, ValueError> {
    let naive = time.to_naive();
    let is_day = naive.time() == NaiveTime::MIN;
    is_day
        .then(|| naive.date())
        .ok_or_else(|| ValueError::new("a day, as its midnight in UTC", time))
}

/// Returns the number of whole 100 ns intervals.
fn intervals(duration: Duration) -> Result<i64, ValueError> {
    let intervals = i64::try_from(duration.as_nanos() / 100);
    intervals.map_err(|_| ValueError::new(MAX_DURATION, format_args!("{duration:?}")))
}

const MAX_DURATION: &str = "a duration of at most 2^63 intervals of 100 ns, which are 29,227 years";

fn duration(intervals: i64) -> Result<Duration, ValueError> {
    let intervals = u64::try_from(intervals)
        .map_err(|_| ValueError::new("a duration that is not negative", intervals))?;
    let nanos = intervals % PER_SECOND.unsigned_abs() * 100;
    Ok(Duration::new(
        intervals / PER_SECOND.unsigned_abs(),
        nanos as u32,
    ))
}

fn signed_intervals(delta: TimeDelta) -> Result<i64, ValueError> {
    let seconds = delta.num_seconds().checked_mul(PER_SECOND);
    let intervals =
        seconds.and_then(|seconds| seconds.checked_add(i64::from(delta.subsec_nanos() / 100)));
    intervals.ok_or_else(|| ValueError::new(MAX_DURATION, delta))
}

fn delta(intervals: i64) -> TimeDelta {
    let nanos = intervals.rem_euclid(PER_SECOND) * 100;
    TimeDelta::new(intervals.div_euclid(PER_SECOND), nanos as u32).unwrap_or_default()
}

/// The text of a String, for properties that are stored as one.
#[inline]
pub(crate) fn text(value: ValueRef<'_>) -> Result<&str, ValueError> {
    match value {
        ValueRef::String(v) => Ok(v),
        other => Err(type_mismatch(EdmType::String, other)),
    }
}

#[inline]
fn narrow<N, W: TryInto<N> + Copy + std::fmt::Display>(wide: W) -> Result<N, ValueError> {
    let range = || format!("a number in the range of {}", std::any::type_name::<N>());
    wide.try_into().map_err(
        #[cold]
        |_| ValueError::new(range(), wide),
    )
}

fn single(wide: f64) -> Result<f32, ValueError> {
    let narrow = wide as f32;
    let is_same = wide.is_nan() || f64::from(narrow) == wide;
    is_same
        .then_some(narrow)
        .ok_or_else(|| ValueError::new("a Double that is an f32", wide))
}

fn signed(value: u64) -> Result<i64, ValueError> {
    let expected = "at most 9223372036854775807 (store larger numbers with `#[entity(with = table_core::typed::Padded)]`)";
    value
        .try_into()
        .map_err(|_| ValueError::new(expected, value))
}
