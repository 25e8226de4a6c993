use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use proptest::prelude::*;

use crate::model::Ticks;

proptest! {
    #[test]
    fn datetimes_survive_a_round_trip(ticks in 0..=Ticks::MAX.get()) {
        let ticks = Ticks::new(ticks).unwrap();
        prop_assert_eq!(Ticks::from(ticks.to_datetime()), ticks);
        prop_assert_eq!(Ticks::from(ticks.to_naive()), ticks);
        prop_assert_eq!(Ticks::from_inverted(ticks.inverted()), Some(ticks));
    }

    /// Precision finer than 100 ns is dropped, also before 1970, and never rounded up.
    #[test]
    fn finer_precision_is_dropped(ticks in 0..=Ticks::MAX.get(), nanos in 0..100_i64) {
        let ticks = Ticks::new(ticks).unwrap();
        prop_assert_eq!(Ticks::from(ticks.to_datetime() + TimeDelta::nanoseconds(nanos)), ticks);
    }

    #[test]
    fn inverted_ticks_sort_in_reverse(a in 0..=Ticks::MAX.get(), b in 0..=Ticks::MAX.get()) {
        let (a, b) = (Ticks::new(a).unwrap(), Ticks::new(b).unwrap());
        prop_assert_eq!(a.cmp(&b), b.inverted().cmp(&a.inverted()));
        prop_assert_eq!(a.cmp(&b), a.to_datetime().cmp(&b.to_datetime()));
    }
}

/// The values of .NET's `DateTime`: `MaxValue.Ticks`, and `new DateTime(2013, 1, 1).Ticks`.
#[test]
fn ticks_equal_those_of_dotnet() {
    let new_year = NaiveDate::from_ymd_opt(2013, 1, 1)
        .unwrap()
        .and_hms_opt(0, 0, 0)
        .unwrap();
    assert_eq!(Ticks::from(new_year).get(), 634_925_952_000_000_000);
    assert_eq!(Ticks::from(new_year).inverted(), 2_520_453_023_999_999_999);
    assert_eq!(Ticks::MAX.to_string(), "9999-12-31T23:59:59.9999999Z");
    assert_eq!(Ticks::MIN.to_string(), "0001-01-01T00:00:00.0000000Z");
}

#[test]
fn conversions_saturate() {
    assert_eq!(Ticks::from(DateTime::<Utc>::MAX_UTC), Ticks::MAX);
    assert_eq!(Ticks::from(DateTime::<Utc>::MIN_UTC), Ticks::MIN);
    assert_eq!(Ticks::new(Ticks::MAX.get() + 1), None);
    assert_eq!(Ticks::new(-1), None);
    assert_eq!(Ticks::from_inverted(-1), None);
    assert_eq!(Ticks::from_inverted(i64::MAX), None);
}

#[test]
fn sums_saturate() {
    let day = TimeDelta::days(1);
    assert_eq!(Ticks::MAX + day, Ticks::MAX);
    assert_eq!(Ticks::MIN + -day, Ticks::MIN);
    assert_eq!(Ticks::MIN + TimeDelta::MAX, Ticks::MAX);
    assert_eq!(Ticks::MAX + TimeDelta::MIN, Ticks::MIN);
    assert_eq!((Ticks::MIN + day).get(), 864_000_000_000);
}
