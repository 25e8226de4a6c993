use proptest::prelude::*;

use crate::model::ETag;

proptest! {
    /// An ETag of a service is returned byte by byte, also if it looks like a local version.
    #[test]
    fn texts_survive_a_round_trip(text in prop_oneof![".*", "W/\"v[0-9a-fA-F+]{15,17}\""]) {
        prop_assert_eq!(ETag::from(text.as_str()).to_string(), text);
    }

    #[test]
    fn different_versions_have_different_texts(a in any::<u64>(), b in any::<u64>()) {
        let (a_tag, b_tag) = (ETag::from_version(a), ETag::from_version(b));
        prop_assert_eq!(&ETag::from(a_tag.to_string().as_str()), &a_tag);
        prop_assert_eq!(a_tag.version(), Some(a));
        prop_assert_eq!(a_tag == b_tag, a == b);
    }
}

/// Another spelling of the same number is another ETag, because ETags are compared exactly.
#[test]
fn only_the_canonical_spelling_is_a_version() {
    for text in [
        "W/\"v000000000000000A\"",
        "W/\"v+00000000000000a\"",
        "W/\"v00a\"",
        "\"v000000000000000a\"",
        "*",
    ] {
        assert_eq!(ETag::from(text).version(), None, "{text}");
    }
    assert_eq!(ETag::from("W/\"v000000000000000a\"").version(), Some(10));
}
