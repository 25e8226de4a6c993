//! Random filters, keys and entities, from small alphabets so that they often match.

use proptest::prelude::*;
use uuid::Uuid;

use crate::model::{EdmValue, Entity, Ticks};
use crate::query::{Comparison, Filter};

/// Characters around the boundaries of UTF-8 and UTF-16, and characters that need escapes.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let c = prop_oneof![
        proptest::sample::select(vec![
            'a',
            'b',
            '\'',
            ' ',
            '(',
            '\u{D7FF}',
            '\u{E000}',
            '\u{FFFF}',
            '\u{10000}'
        ]),
        any::<char>(),
    ];
    proptest::collection::vec(c, 0..4).prop_map(String::from_iter)
}

/// A text that can be a key, from a small set.
pub(crate) fn key_text() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "",
        "a",
        "aa",
        "ab",
        "b",
        "c",
        "\u{E000}",
        "\u{1F600}",
        "\u{E9}",
    ])
    .prop_map(str::to_owned)
}

/// Values of every type except NaN, which equals nothing.
pub(crate) fn value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..4).prop_map(EdmValue::Binary),
        any::<bool>().prop_map(EdmValue::Boolean),
        (0..=Ticks::MAX.get())
            .prop_map(|t| EdmValue::DateTime(Ticks::new(t).unwrap_or(Ticks::MIN))),
        prop_oneof![
            any::<f64>(),
            (-3..3).prop_map(f64::from),
            Just(f64::INFINITY)
        ]
        .prop_filter("NaN", |v| !v.is_nan())
        .prop_map(EdmValue::Double),
        any::<u128>().prop_map(|v| EdmValue::Guid(Uuid::from_u128(v))),
        prop_oneof![any::<i32>(), -3..3].prop_map(EdmValue::Int32),
        prop_oneof![any::<i64>(), -3..3i64].prop_map(EdmValue::Int64),
        text().prop_map(EdmValue::String),
    ]
}

pub(crate) fn comparison() -> impl Strategy<Value = Comparison> {
    use Comparison::*;
    proptest::sample::select(vec![
        Equal,
        NotEqual,
        GreaterThan,
        GreaterThanOrEqual,
        LessThan,
        LessThanOrEqual,
    ])
}

/// A tree of comparisons.
pub(crate) fn tree(leaf: impl Strategy<Value = Filter> + 'static) -> impl Strategy<Value = Filter> {
    leaf.prop_recursive(5, 24, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.and(b)),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.or(b)),
            inner.prop_map(|f| !f),
        ]
    })
}

/// Filters with all kinds of values and names.
pub(crate) fn any_filter() -> impl Strategy<Value = Filter> {
    let name = prop_oneof![
        Just("Name".to_owned()),
        "[_a-zA-Z\u{E9}][_a-z0-9\u{E9}]{0,6}"
    ];
    let leaf =
        (name, comparison(), value()).prop_map(|(name, c, value)| Filter::compare(&name, c, value));
    tree(leaf.prop_filter("a word of the language", |f| f.check_names().is_ok()))
}

/// Filters that mostly compare keys, and a few properties that only some entities have.
pub(crate) fn key_filter() -> impl Strategy<Value = Filter> {
    let key = prop_oneof![key_text(), key_text(), key_text(), Just("a\0b".to_owned())];
    let keys = (
        proptest::sample::select(vec!["PartitionKey", "RowKey"]),
        comparison(),
        key,
    )
        .prop_map(|(name, c, text)| Filter::compare(name, c, text));
    let properties = (
        proptest::sample::select(vec!["A", "B", "RowKey"]),
        comparison(),
        0..3,
    )
        .prop_map(|(name, c, n)| Filter::compare(name, c, n));
    tree(prop_oneof![4 => keys, 1 => properties])
}

pub(crate) fn entity() -> impl Strategy<Value = Entity> {
    (key_text(), key_text(), proptest::option::of(0..3)).prop_map(|(partition, row, a)| {
        let entity = Entity::new(partition, row).unwrap();
        match a {
            Some(a) => entity.with("A", a),
            None => entity,
        }
    })
}
