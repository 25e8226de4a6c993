//! The entities that every client writes and expects.

use conformance::DIFFICULT_KEYS;
use table_core::model::{EdmType, EdmValue, Entity, Ticks};
use table_core::store::limits;
use uuid::Uuid;

/// The partition with one entity for each type.
pub(crate) const TYPES: &str = "types";

/// The boundary values of each type, and every difficult key as PartitionKey with every difficult key as
/// RowKey.
pub(crate) fn entities() -> Vec<Entity> {
    let types = EdmType::ALL.into_iter().map(of_type);
    let pairs = DIFFICULT_KEYS
        .into_iter()
        .flat_map(|p| DIFFICULT_KEYS.map(|r| of_key(p, r)));
    types.chain(pairs).collect()
}

fn of_key(partition: &str, row: &str) -> Entity {
    entity(partition, row).with("Key", format!("{partition}|{row}"))
}

/// Returns the entity of a legal key.
pub(crate) fn entity(partition: &str, row: &str) -> Entity {
    Entity::new(partition, row).expect("a legal key")
}

fn of_type(edm_type: EdmType) -> Entity {
    let values = boundaries(edm_type).into_iter().enumerate();
    values.fold(entity(TYPES, edm_type.name()), |entity, (n, value)| {
        entity.with(&format!("V{n}"), value)
    })
}

fn boundaries(edm_type: EdmType) -> Vec<EdmValue> {
    match edm_type {
        EdmType::Binary => all([
            vec![],
            vec![0],
            vec![255, 254],
            (0..=255).collect(),
            vec![7; limits::BINARY_BYTES],
        ]),
        EdmType::Boolean => all([true, false]),
        EdmType::DateTime => all([
            limits::DATETIME_MIN_TICKS,
            621_355_968_000_000_000,
            634_925_952_001_234_567,
        ]
        .map(|ticks| Ticks::new(ticks).expect("a moment"))
        .into_iter()
        .chain([Ticks::MAX])),
        // The emulator loses the sign of zero.
        EdmType::Double => all([
            0.0,
            1.0,
            -1.0,
            1e15,
            9_007_199_254_740_993.0,
            1e300,
            0.1,
            -2.5,
            1.0 / 3.0,
        ]
        .into_iter()
        .chain([f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, f64::EPSILON])
        .chain([f64::INFINITY, f64::NEG_INFINITY, f64::NAN])),
        EdmType::Guid => {
            all([0, u128::MAX, 0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210].map(Uuid::from_u128))
        }
        EdmType::Int32 => all([0, 1, -1, i32::MIN, i32::MAX]),
        EdmType::Int64 => all([
            0,
            1,
            -1,
            (1i64 << 53) + 1,
            i64::from(i32::MAX) + 1,
            i64::MIN,
            i64::MAX,
        ]),
        EdmType::String => texts(),
    }
}

fn texts() -> Vec<EdmValue> {
    let plain = [
        "",
        " ",
        " a ",
        "it's",
        "\"quoted\"",
        "back\\slash",
        "a/b?c#d",
        "<x>&amp;</x>",
        "null",
        "{}",
    ];
    let like_others = ["2013-01-01T00:00:00Z", "123", "true", "NaN", "AQID"];
    let coded = ["\u{0}", "\u{1}\t\r\n\u{1F}\u{7F}", "\u{2028}"];
    let wide = [
        "straße",
        "日本語",
        "\u{1F600}\u{10FFFF}",
        "\u{FFFD}\u{FFFF}",
        "e\u{301}",
    ];
    let mut texts = all(plain
        .into_iter()
        .chain(like_others)
        .chain(coded)
        .chain(wide));
    // The emulator damages wider characters at the boundary of two packets of a request.
    texts.push("x".repeat(limits::STRING_UNITS).into());
    texts
}

fn all<V: Into<EdmValue>>(values: impl IntoIterator<Item = V>) -> Vec<EdmValue> {
    values.into_iter().map(Into::into).collect()
}
