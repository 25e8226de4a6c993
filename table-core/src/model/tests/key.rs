use proptest::prelude::*;

use crate::error::ErrorKind;
use crate::model::{Key, PartitionKey, RowKey};

/// Texts around every boundary of the order and of the encodings.
pub(super) fn text() -> impl Strategy<Value = String> {
    let c = prop_oneof![
        proptest::char::range(' ', '~'),
        proptest::sample::select(vec![
            '\u{A0}', 'é', '\u{7FF}', '\u{800}', '\u{D7FF}', '\u{E000}', '\u{FFFF}'
        ]),
        proptest::sample::select(vec!['\u{10000}', '\u{1F600}', '\u{10FFFF}']),
        any::<char>(),
    ];
    let c = c.prop_filter("a character of keys", |c| {
        !crate::model::key::is_forbidden(*c)
    });
    proptest::collection::vec(c, 0..6).prop_map(String::from_iter)
}

fn utf16(key: &Key) -> (Vec<u16>, Vec<u16>) {
    (
        key.partition().encode_utf16().collect(),
        key.row().encode_utf16().collect(),
    )
}

proptest! {
    #[test]
    fn order_is_by_utf16_unit(a in (text(), text()), b in (text(), text())) {
        let (a, b) = (Key::new(a.0, a.1).unwrap(), Key::new(b.0, b.1).unwrap());
        let expected = utf16(&a).cmp(&utf16(&b));
        prop_assert_eq!(a.cmp(&b), expected);
        prop_assert_eq!(a.to_sortable().cmp(&b.to_sortable()), expected);
        prop_assert_eq!(a == b, expected.is_eq());
    }

    #[test]
    fn sortable_bytes_survive_a_round_trip(partition in text(), row in text()) {
        let key = Key::new(&partition, &row).unwrap();
        prop_assert_eq!((key.partition(), key.row()), (&*partition, &*row));
        prop_assert_eq!(Key::from_sortable(&key.to_sortable()), Some(key));
    }

    /// Damaged bytes are refused or are a key whose parts can be read.
    #[test]
    fn damaged_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
        if let Some(key) = Key::from_sortable(&bytes) {
            prop_assert_eq!(key.partition().len() + key.row().len() + 1, bytes.len());
        }
    }

    /// One flipped byte in a valid key, which is more likely to be accepted as text.
    #[test]
    fn flipped_bytes_do_not_panic(partition in text(), row in text(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = Key::new(partition, row).unwrap().to_sortable();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Some(key) = Key::from_sortable(&bytes) {
            prop_assert_eq!(key.partition().len() + key.row().len() + 1, bytes.len());
        }
    }

    #[test]
    fn separate_parts_equal_the_parts_of_the_key(partition in text(), row in text()) {
        let key = Key::new(&partition, &row).unwrap();
        let (p, r) = (PartitionKey::new(partition).unwrap(), RowKey::new(row).unwrap());
        prop_assert_eq!((key.partition_key(), key.row_key()), (p.clone(), r.clone()));
        prop_assert_eq!(Key::from((&p, &r)), key);
    }
}

/// The limit is 512 UTF-16 units regardless of bytes; such keys exceed the 512 bytes of the fast check.
#[test]
fn length_counts_utf16_units() {
    for (text, units) in [("k", 1), ("é", 1), ("語", 1), ("\u{1F600}", 2)] {
        let longest = text.repeat(512 / units);
        assert!(Key::new(&longest, &longest).is_ok(), "{text}");
        let error = Key::new("", longest + text).unwrap_err();
        assert!(error.is_limit_exceeded(), "{error}");
        assert!(
            error.to_string().contains("UTF-16 units in the RowKey"),
            "{error}"
        );
    }
}

#[test]
fn errors_name_the_forbidden_character_and_its_position() {
    let error = Key::new("Sales", "a\tb").unwrap_err();
    let ErrorKind::InvalidKey {
        key_name,
        text,
        reason,
    } = error.kind()
    else {
        panic!("{error}")
    };
    assert_eq!(*key_name, "RowKey");
    assert_eq!(text.as_str(), "a\tb");
    assert!(
        reason.contains("'\\t'") && reason.contains("byte 1"),
        "{reason}"
    );
    assert!(Key::new("a\u{A0}b", "\u{80}").is_err());
    assert!(Key::new("a\u{A0}b", "").is_ok());
}

#[test]
fn display_doubles_quotes() {
    assert_eq!(
        Key::new("it's", "'").unwrap().to_string(),
        "('it''s', '''')"
    );
}
