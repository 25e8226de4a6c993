use proptest::prelude::*;
use uuid::Uuid;

use super::arbitrary::any_filter;
use crate::model::{EdmValue, Ticks};
use crate::query::{Filter, FilterNode};

proptest! {
    #[test]
    fn printed_text_parses_to_the_same_filter(filter in any_filter()) {
        prop_assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
    }
}

fn printed(value: impl Into<EdmValue>) -> String {
    Filter::eq("p", value).to_string()
}

#[test]
fn every_literal_keeps_its_type() {
    let ticks = "2013-01-01T05:15:00.1234567Z".parse::<Ticks>().unwrap();
    assert_eq!(printed("o'x"), "p eq 'o''x'");
    assert_eq!(printed(-1), "p eq -1");
    assert_eq!(printed(i64::MIN), "p eq -9223372036854775808L");
    assert_eq!(printed(true), "p eq true");
    assert_eq!(
        printed(ticks),
        "p eq datetime'2013-01-01T05:15:00.1234567Z'"
    );
    assert_eq!(
        printed(Uuid::from_u128(0xAB)),
        "p eq guid'00000000-0000-0000-0000-0000000000ab'"
    );
    assert_eq!(printed(vec![0, 0xFE]), "p eq X'00fe'");
}

#[test]
fn a_double_never_looks_like_an_integer() {
    for (value, text) in [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (1e300, "1e300"),
        (5e-324, "5e-324"),
        (f64::INFINITY, "INF"),
        (f64::NEG_INFINITY, "-INF"),
    ] {
        assert_eq!(printed(value), format!("p eq {text}"));
        assert_eq!(
            printed(value).parse::<Filter>().unwrap(),
            Filter::eq("p", value)
        );
    }
    assert_eq!(printed(f64::NAN), "p eq NaN");
    let filter = "p eq NaN".parse::<Filter>().unwrap();
    let FilterNode::Compare {
        value: EdmValue::Double(nan),
        ..
    } = filter.node()
    else {
        panic!("NaN is a Double");
    };
    assert!(nan.is_nan());
}

#[test]
fn parentheses_are_printed_only_where_needed() {
    let [a, b, c] = ["a", "b", "c"].map(|name| Filter::eq(name, 1));
    let text = |filter: Filter| filter.to_string().replace(" eq 1", "");
    assert_eq!(
        text(a.clone().and(b.clone()).and(c.clone())),
        "a and b and c"
    );
    assert_eq!(
        text(a.clone().and(b.clone().and(c.clone()))),
        "a and (b and c)"
    );
    assert_eq!(text(a.clone().and(b.clone()).or(c.clone())), "a and b or c");
    assert_eq!(text(a.clone().or(b.clone().and(c.clone()))), "a or b and c");
    assert_eq!(
        text(a.clone().or(b.clone()).and(c.clone())),
        "(a or b) and c"
    );
    assert_eq!(text(!a.clone().and(!b.clone())), "not (a and not (b))");
    assert_eq!(text(!(!a.or(b))), "not (not (a or b))");
}
