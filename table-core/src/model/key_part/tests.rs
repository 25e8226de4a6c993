use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeZone, Utc};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::model::{Key, Ticks, key_order};

fn encode<P: KeyPart>(value: &P, format: PartFormat) -> Result<String, ValueError> {
    let mut out = KeyWriter {
        out: String::new(),
        format,
    };
    value.encode(&mut out).map(|()| out.out)
}

fn plain<P: KeyPart>(value: &P) -> String {
    encode(value, PartFormat::PLAIN).unwrap()
}

fn decode<P: KeyPart>(text: &str) -> Result<P, ValueError> {
    P::decode(&KeyText {
        text,
        format: PartFormat::PLAIN,
    })
}

const fn wide(width: usize) -> PartFormat {
    PartFormat {
        width: Some(width),
        separator: None,
    }
}

const fn until(separator: char) -> PartFormat {
    PartFormat {
        width: None,
        separator: Some(separator),
    }
}

#[test]
fn each_type_has_its_documented_text() {
    assert_eq!(plain(&7u8), "007");
    assert_eq!(plain(&7u16), "00007");
    assert_eq!(plain(&7u32), "0000000007");
    assert_eq!(plain(&u64::MAX), "18446744073709551615");
    assert_eq!(plain(&i8::MIN), "000");
    assert_eq!(plain(&-1i16), "32767");
    assert_eq!(plain(&0i32), "2147483648");
    assert_eq!(plain(&i64::MIN), "00000000000000000000");
    assert_eq!(plain(&i64::MAX), "18446744073709551615");
    assert_eq!(plain(&true), "1");
    assert_eq!(
        plain(&NaiveDate::from_ymd_opt(2013, 1, 9).unwrap()),
        "2013-01-09"
    );
    assert_eq!(
        plain(&Uuid::from_u128(0xAB)),
        "00000000-0000-0000-0000-0000000000ab"
    );
    assert_eq!(plain(&"a/b~".to_owned()), "a~2Fb~7E");
    assert_eq!(plain(&Reverse(7u8)), "992");
    assert_eq!(plain(&Reverse(0u64)), "99999999999999999999");
    assert_eq!(plain(&Reverse(i8::MAX)), "744");
}

/// Computed by hand: 2013-01-01T00:00:00Z is day 734 868 since 0001-01-01; a day is 864 000 000 000 ticks.
#[test]
fn inverted_ticks_have_the_documented_text() {
    let new_year = Utc.with_ymd_and_hms(2013, 1, 1, 0, 0, 0).unwrap();
    assert_eq!(plain(&new_year), "0634925952000000000");
    assert_eq!(plain(&Reverse(new_year)), "2520453023999999999");
    assert_eq!(plain(&Reverse(new_year.naive_utc())), "2520453023999999999");
    assert_eq!(
        plain(&Reverse(Ticks::from(new_year))),
        "2520453023999999999"
    );
    assert_eq!(plain(&Reverse(Ticks::MIN)), "3155378975999999999");
    assert_eq!(plain(&Reverse(Ticks::MAX)), "0000000000000000000");
    assert_eq!(
        decode::<Reverse<DateTime<Utc>>>("2520453023999999999")
            .unwrap()
            .0,
        new_year
    );
}

#[test]
fn a_template_width_pads_and_never_widens() {
    assert_eq!(encode(&223u32, wide(6)).unwrap(), "000223");
    assert_eq!(encode(&Reverse(223u32), wide(6)).unwrap(), "999776");
    let error = encode(&1_000_000u32, wide(6)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected at most 6 digits, found 1000000"
    );
}

#[test]
fn only_canonical_text_is_read() {
    for text in ["7", "0007", "0a7", "+07", "256", ""] {
        assert!(decode::<u8>(text).is_err(), "{text:?}");
    }
    for text in ["a~2fb", "a~41", "~", "~2", "~7e", "a~5Fb", "x~é"] {
        assert!(decode::<String>(text).is_err(), "{text:?}");
    }
    for text in ["2013-1-09", "2013-02-30", "+2013-01-01"] {
        assert!(decode::<NaiveDate>(text).is_err(), "{text:?}");
    }
    for text in [
        "00000000-0000-0000-0000-0000000000AB",
        "000000000000000000000000000000ab",
    ] {
        assert!(decode::<Uuid>(text).is_err(), "{text:?}");
    }
    assert!(decode::<u64>("18446744073709551616").is_err());
    assert!(decode::<Ticks>("3155378976000000000").is_err());
    assert!(decode::<Reverse<Ticks>>("3155378976000000000").is_err());
    assert!(decode::<bool>("true").is_err());
}

#[test]
fn values_that_no_key_can_contain_are_errors() {
    assert!(encode(&DateTime::<Utc>::MAX_UTC, PartFormat::PLAIN).is_err());
    assert!(encode(&NaiveDateTime::MIN, PartFormat::PLAIN).is_err());
    assert!(encode(&NaiveDate::MAX, PartFormat::PLAIN).is_err());
}

#[test]
fn the_parser_names_the_part_and_the_template() {
    let key = Key::new("Sales", "empid_00x223").unwrap();
    let mut parser = KeyParser::row("Employee", "empid_{id:06}", &key);
    parser.literal("empid_").unwrap();
    let error = parser.part::<u32>("id", wide(6)).unwrap_err().to_string();
    let expected = "cannot read Employee ('Sales', 'empid_00x223'): property 'RowKey': expected a number of 6 \
                    digits for id as in \"empid_{id:06}\", found \"00x223\"";
    assert_eq!(error, expected);
}

#[test]
fn the_parser_requires_every_character() {
    let key = Key::new("p", "a_b").unwrap();
    let mut parser = KeyParser::row("E", "{a}", &key);
    assert!(parser.literal("b").is_err());
    assert_eq!(parser.part::<String>("a", until('_')).unwrap(), "a");
    assert!(
        parser
            .finish()
            .unwrap_err()
            .to_string()
            .contains("expected the end of the key")
    );
}

#[test]
fn a_repeated_part_must_agree() {
    let key = Key::new("007", "008").unwrap();
    let first: u8 = KeyParser::partition("E", "{n}", &key)
        .part("n", PartFormat::PLAIN)
        .unwrap();
    let again = KeyParser::row("E", "{n}", &key).repeated_part("n", PartFormat::PLAIN, &first);
    assert!(
        again
            .unwrap_err()
            .to_string()
            .contains("the same n in all places of the key")
    );
}

/// Checks that a part of fixed width survives a round trip, keeps its width, and sorts like its values.
fn check_fixed<P: KeyPart + Ord + std::fmt::Debug>(a: &P, b: &P) {
    let (x, y) = (plain(a), plain(b));
    assert_eq!(&decode::<P>(&x).unwrap(), a);
    assert_eq!(Some(x.len()), P::WIDTH);
    assert_eq!(key_order::compare(&x, &y), a.cmp(b), "{x} {y}");
}

macro_rules! fixed_parts {
    ($($name:ident: $strategy:expr;)*) => {
        proptest! {$(
            #[test]
            fn $name(a in $strategy, b in $strategy) {
                check_fixed(&a, &b);
            }
        )*}
    };
}

fn time() -> impl Strategy<Value = DateTime<Utc>> {
    (0..=Ticks::MAX.get()).prop_map(|t| Ticks::new(t).unwrap().to_datetime())
}

fixed_parts! {
    u8_sorts: any::<u8>();
    u16_sorts: any::<u16>();
    u32_sorts: any::<u32>();
    u64_sorts: any::<u64>();
    i8_sorts: any::<i8>();
    i16_sorts: any::<i16>();
    i32_sorts: any::<i32>();
    i64_sorts: any::<i64>();
    bool_sorts: any::<bool>();
    uuid_sorts: any::<u128>().prop_map(Uuid::from_u128);
    date_sorts: (0..3_652_059).prop_map(|d| NaiveDate::from_num_days_from_ce_opt(d).unwrap());
    time_sorts: time();
    naive_time_sorts: time().prop_map(|t| t.naive_utc());
    reverse_time_sorts: time().prop_map(Reverse);
    reverse_u32_sorts: any::<u32>().prop_map(Reverse);
    reverse_u64_sorts: any::<u64>().prop_map(Reverse);
    reverse_i64_sorts: any::<i64>().prop_map(Reverse);
}

/// Text with difficult characters: escapes, separators, forbidden and astral characters.
fn text() -> impl Strategy<Value = String> {
    "[a-c_~/#\\\\?0-9A-F\u{1}\u{7f}\u{9f}\u{e9}\u{e000}\u{ffff}\u{1f600}]{0,12}"
}

/// Text that a key can contain without escapes.
fn legal() -> impl Strategy<Value = String> {
    "[ -\"$-.0->@-Z\\[\\]^a-}\u{e9}\u{e000}\u{ffff}\u{1f600}]{0,12}"
}

proptest! {
    #[test]
    fn text_survives_a_round_trip(value in text(), separator in prop::option::of(prop::char::range('!', '@'))) {
        let format = PartFormat { width: None, separator };
        let written = encode(&value, format).unwrap();
        prop_assert_eq!(String::decode(&KeyText { text: &written, format }).unwrap(), value);
        prop_assert!(separator.is_none_or(|s| s.is_ascii_digit() || s == '~' || !written.contains(s)));
        prop_assert!(Key::new("", &written).is_ok());
    }

    #[test]
    fn a_prefix_of_the_text_is_a_prefix_of_the_key(value in text(), more in text()) {
        let whole = encode(&format!("{value}{more}"), until('_')).unwrap();
        prop_assert!(whole.starts_with(&encode(&value, until('_')).unwrap()));
    }

    #[test]
    fn different_texts_have_different_encodings(a in text(), b in text()) {
        prop_assert_eq!(a == b, plain(&a) == plain(&b));
    }

    #[test]
    fn legal_text_is_written_unchanged(value in legal()) {
        prop_assert_eq!(plain(&value), value);
    }

    /// A tuple of fixed-width parts and a final text sorts like the tuple, in the service's order.
    #[test]
    fn tuples_with_a_final_text_sort(a in (any::<i32>(), legal()), b in (any::<i32>(), legal())) {
        let key = |(n, text): &(i32, String)| {
            let builder = KeyBuilder::new("RowKey", "{n}_{text}");
            let builder = builder.part("n", n, PartFormat::PLAIN)?.literal("_");
            builder.part("text", text, PartFormat::PLAIN).map(KeyBuilder::finish)
        };
        let order = a.0.cmp(&b.0).then_with(|| key_order::compare(&a.1, &b.1));
        prop_assert_eq!(key_order::compare(&key(&a).unwrap(), &key(&b).unwrap()), order);
    }

    /// A composite key with text in the middle survives a round trip, for any text.
    #[test]
    fn composite_keys_survive_a_round_trip(a in text(), n in any::<u32>(), b in text()) {
        let builder = KeyBuilder::new("RowKey", "{a}_{n}{b}");
        let builder = builder.part("a", &a, until('_')).unwrap().literal("_");
        let builder = builder.part("n", &n, PartFormat::PLAIN).unwrap();
        let row = builder.part("b", &b, PartFormat::PLAIN).unwrap().finish();
        let key = Key::new("", &row).unwrap();
        let mut parser = KeyParser::row("E", "{a}_{n}{b}", &key);
        prop_assert_eq!(parser.part::<String>("a", until('_')).unwrap(), a);
        parser.literal("_").unwrap();
        prop_assert_eq!(parser.part::<u32>("n", PartFormat::PLAIN).unwrap(), n);
        prop_assert_eq!(parser.part::<String>("b", PartFormat::PLAIN).unwrap(), b);
        parser.finish().unwrap();
    }
}
