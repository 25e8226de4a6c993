use proptest::prelude::*;

use super::key::text;
use crate::model::key_order::{compare, key_prefix_end, prefix_end};

fn within(text: &str, from: &str, end: Option<&str>) -> bool {
    compare(text, from).is_ge() && end.is_none_or(|end| compare(text, end).is_lt())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The range of a prefix contains exactly the texts with that prefix.
    #[test]
    fn prefix_ranges_are_exact(prefix in ".{0,3}", other in ".{0,4}", tail in ".{0,3}") {
        let end = prefix_end(&prefix);
        let longer = format!("{prefix}{tail}");
        prop_assert!(within(&longer, &prefix, end.as_deref()));
        prop_assert_eq!(within(&other, &prefix, end.as_deref()), other.starts_with(&prefix));
    }

    /// The same for keys: the end of the range is a valid key.
    #[test]
    fn key_prefix_ranges_are_exact(prefix in text(), other in text(), tail in text()) {
        let end = key_prefix_end(&prefix);
        let longer = format!("{prefix}{tail}");
        prop_assert!(within(&longer, &prefix, end.as_deref()));
        prop_assert_eq!(within(&other, &prefix, end.as_deref()), other.starts_with(&prefix));
        prop_assert!(end.is_none_or(|end| crate::model::RowKey::new(end).is_ok()));
    }

    /// No text lies between a character and its successor.
    #[test]
    fn successors_are_adjacent(c in any::<char>()) {
        let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        let prefix = c.to_string();
        match prefix_end(&prefix) {
            None => prop_assert_eq!(c, '\u{FFFF}'),
            Some(end) => prop_assert!(units(&end) > units(&prefix)),
        }
    }
}

#[test]
fn prefixes_end_at_the_edges_of_utf16() {
    let cases = [
        ("a", Some("b")),
        ("a.", Some("a/")),
        ("\u{D7FF}", Some("\u{10000}")),
        ("\u{10FFFF}", Some("\u{E000}")),
        ("a\u{FFFF}", Some("b")),
        ("\u{FFFF}\u{FFFF}", None),
        ("", None),
    ];
    for (prefix, end) in cases {
        assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
    }
    assert_eq!(key_prefix_end("a.").as_deref(), Some("a0"));
    assert_eq!(key_prefix_end("a~").as_deref(), Some("a\u{A0}"));
}
