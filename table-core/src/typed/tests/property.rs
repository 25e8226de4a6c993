use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};
use proptest::prelude::*;
use uuid::Uuid;

use crate::model::property::written;
use crate::model::{EdmType, EdmValue, Ticks, ValueRef};
use crate::typed::{AsText, Codec, Json, Optional, Padded, Plain, Property};

fn store<T, C: Codec<T>>(_: C, value: &T) -> Option<EdmValue> {
    written(|sink| C::write(value, sink)).unwrap()
}

/// Checks that a value is stored in its type and reads back.
fn check<T: Property + PartialEq + std::fmt::Debug>(value: &T, edm: EdmType) {
    let stored = store(Plain, value).unwrap();
    assert_eq!(stored.edm_type(), edm);
    assert_eq!(T::TYPE, edm);
    assert_eq!(&T::read(stored.as_ref()).unwrap(), value);
}

#[test]
fn every_type_reads_back() {
    check(&true, EdmType::Boolean);
    check(&i8::MIN, EdmType::Int32);
    check(&u8::MAX, EdmType::Int32);
    check(&i16::MIN, EdmType::Int32);
    check(&u16::MAX, EdmType::Int32);
    check(&i32::MIN, EdmType::Int32);
    check(&u32::MAX, EdmType::Int64);
    check(&i64::MIN, EdmType::Int64);
    check(&(i64::MAX as u64), EdmType::Int64);
    check(&0.1f32, EdmType::Double);
    check(&f64::MIN_POSITIVE, EdmType::Double);
    check(&String::from("é"), EdmType::String);
    check::<Box<str>>(&"é".into(), EdmType::String);
    check::<Arc<str>>(&"é".into(), EdmType::String);
    check::<Cow<'static, str>>(&"é".into(), EdmType::String);
    check(&vec![0u8, 255], EdmType::Binary);
    check(&Uuid::from_u128(7), EdmType::Guid);
    check(&Ticks::MAX, EdmType::DateTime);
    check(&DateTime::UNIX_EPOCH, EdmType::DateTime);
    check::<NaiveDateTime>(&DateTime::UNIX_EPOCH.naive_utc(), EdmType::DateTime);
    check(
        &NaiveDate::from_ymd_opt(2013, 1, 31).unwrap(),
        EdmType::DateTime,
    );
    check(&Duration::new(7, 100), EdmType::Int64);
    check(&Duration::new(922_337_203_685, 477_580_700), EdmType::Int64);
    check(&TimeDelta::nanoseconds(-100), EdmType::Int64);
    check(&Some(7i32), EdmType::Int32);
}

#[test]
fn none_is_absent_and_absent_is_none() {
    assert_eq!(store(Plain, &None::<i32>), None);
    assert_eq!(Option::<i32>::missing(), Some(None));
    assert_eq!(i32::missing(), None);
}

#[test]
fn only_the_lossless_widening_is_accepted() {
    assert_eq!(i64::read(ValueRef::Int32(-1)).unwrap(), -1);
    assert_eq!(u32::read(ValueRef::Int32(1)).unwrap(), 1);
    assert!(i32::read(ValueRef::Int64(1)).is_err());
    assert_eq!(f64::read(ValueRef::Int32(-1)).unwrap(), -1.0);
    assert_eq!(
        f64::read(ValueRef::Int64(1 << 53)).unwrap(),
        9_007_199_254_740_992.0
    );
    assert_eq!(
        f64::read(ValueRef::Int64(i64::MIN)).unwrap(),
        i64::MIN as f64
    );
    for inexact in [(1 << 53) + 1, i64::MAX, i64::MIN + 1] {
        assert!(
            f64::read(ValueRef::Int64(inexact))
                .unwrap_err()
                .to_string()
                .contains("exactly")
        );
    }
    assert_eq!(
        f32::read(ValueRef::Int32(16_777_216)).unwrap(),
        16_777_216.0
    );
    assert!(f32::read(ValueRef::Int32(16_777_217)).is_err());
    assert!(f64::read(ValueRef::String("1")).is_err());
    assert!(String::read(ValueRef::Int32(1)).is_err());
}

#[test]
fn values_that_do_not_fit_are_refused_with_a_reason() {
    let error = u8::read(ValueRef::Int32(256)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected a number in the range of u8, found 256"
    );
    assert!(u32::read(ValueRef::Int64(-1)).is_err());
    assert!(u64::read(ValueRef::Int64(-1)).is_err());
    assert!(f32::read(ValueRef::Double(0.1)).is_err());
    assert!(f32::read(ValueRef::Double(f64::NAN)).unwrap().is_nan());
    let error = i32::read(ValueRef::String("7")).unwrap_err();
    assert_eq!(error.to_string(), "expected Edm.Int32, found Edm.String");
    assert!(written(|sink| (i64::MAX as u64 + 1).write(sink)).is_err());
    assert!(written(|sink| DateTime::<Utc>::MAX_UTC.write(sink)).is_err());
}

#[test]
fn times_are_stored_at_100_ns() {
    let fine = DateTime::UNIX_EPOCH + TimeDelta::nanoseconds(199);
    let stored = store(Plain, &fine).unwrap();
    let coarse = DateTime::UNIX_EPOCH + TimeDelta::nanoseconds(100);
    assert_eq!(DateTime::<Utc>::read(stored.as_ref()).unwrap(), coarse);
}

#[test]
fn days_and_durations_have_bounds() {
    let noon = ValueRef::DateTime("2013-01-31T12:00:00Z".parse().unwrap());
    let error = NaiveDate::read(noon).unwrap_err().to_string();
    assert!(
        error.starts_with("expected a day, as its midnight in UTC, found 2013-01-31T12:00"),
        "{error}"
    );
    assert!(written(|sink| NaiveDate::MIN.write(sink)).is_err());
    assert_eq!(
        store(Plain, &Duration::from_nanos(250)),
        Some(EdmValue::Int64(2)),
        "a remainder is dropped"
    );
    assert_eq!(
        store(Plain, &TimeDelta::nanoseconds(-250)),
        Some(EdmValue::Int64(-2))
    );
    assert!(
        written(|sink| Duration::MAX.write(sink))
            .unwrap_err()
            .to_string()
            .contains("29,227 years")
    );
    assert!(written(|sink| TimeDelta::MAX.write(sink)).is_err());
    assert!(
        Duration::read(ValueRef::Int64(-1))
            .unwrap_err()
            .to_string()
            .contains("not negative")
    );
    assert_eq!(
        Duration::read(ValueRef::Int32(1)).unwrap(),
        Duration::from_nanos(100)
    );
}

/// Prints fewer digits than it has.
#[derive(Debug)]
struct Rounded(f64);

impl std::fmt::Display for Rounded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1}", self.0 * 2.0)
    }
}

impl std::str::FromStr for Rounded {
    type Err = std::num::ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

#[test]
fn text_is_what_display_prints() {
    let address = IpAddr::from([10, 0, 0, 7]);
    assert_eq!(store(AsText, &address), Some("10.0.0.7".into()));
    assert_eq!(
        <AsText as Codec<IpAddr>>::read(ValueRef::String("::1")).unwrap(),
        "::1".parse::<IpAddr>().unwrap()
    );
    let error = <AsText as Codec<IpAddr>>::read(ValueRef::String("x"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("expected the text of a core::net::ip_addr::IpAddr, found \"x\": "),
        "{error}"
    );
    assert_eq!(store(Optional::<AsText>::default(), &None::<IpAddr>), None);
    assert_eq!(
        store(Optional::<AsText>::default(), &Some(address)),
        Some("10.0.0.7".into())
    );
    assert_eq!(
        <Optional<AsText> as Codec<Option<IpAddr>>>::missing(),
        Some(None)
    );
    let error = written(|sink| AsText::write(&Rounded(1.5), sink))
        .unwrap_err()
        .to_string();
    assert!(error.contains("read back as another value"), "{error}");
}

#[test]
fn json_null_is_absent() {
    assert_eq!(store(Json, &vec![1, 2]), Some("[1,2]".into()));
    assert_eq!(store(Json, &None::<i32>), None);
    assert_eq!(<Json as Codec<Option<i32>>>::missing(), Some(None));
    assert_eq!(<Json as Codec<Vec<i32>>>::missing(), None);
    assert_eq!(<Json as Codec<Option<Vec<i32>>>>::missing(), Some(None));
    assert_eq!(store(Json, &Some(vec![1])), Some("[1]".into()));
    let error = <Json as Codec<Vec<i32>>>::read(ValueRef::String("[1,"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("expected JSON for alloc::vec::Vec<i32>, found EOF"),
        "{error}"
    );
    assert_eq!(store(Json, &vec![1.5, 2.0]), Some("[1.5,2.0]".into()));
}

/// JSON has no NaN. The `null` in its place could not be read back.
#[test]
fn values_that_json_cannot_represent_are_refused() {
    let refused = |value: Vec<f64>| {
        written(|sink| Json::write(&value, sink))
            .unwrap_err()
            .to_string()
    };
    assert!(refused(vec![1.0, f64::NAN]).contains("no NaN"));
    assert!(refused(vec![f64::INFINITY]).contains("no NaN"));
    assert!(written(|sink| Json::write(&f64::NAN, sink)).is_err());
    assert_eq!(
        store(Json, &vec![Some(1.0), None]),
        Some("[1.0,null]".into())
    );
}

#[test]
fn padded_numbers_sort_as_text() {
    assert_eq!(
        store(Padded, &u64::MAX),
        Some("18446744073709551615".into())
    );
    assert_eq!(store(Padded, &Some(7u16)), Some("00007".into()));
    assert_eq!(store(Padded, &None::<u16>), None);
    assert!(<Padded as Codec<u64>>::read(ValueRef::String("7")).is_err());
}

proptest! {
    #[test]
    fn numbers_read_back(a: i64, b: f64, c: u32, d: i16, e: u64) {
        check(&a, EdmType::Int64);
        check(&b, EdmType::Double);
        check(&c, EdmType::Int64);
        check(&d, EdmType::Int32);
        let padded = store(Padded, &e).unwrap();
        prop_assert_eq!(<Padded as Codec<u64>>::read(padded.as_ref()).unwrap(), e);
    }
}
