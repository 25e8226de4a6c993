//! Data for several modules.

use table_core::model::{EdmType, EdmValue, Entity, Key, Ticks};
use table_core::query::{Comparison, Filter};
use uuid::Uuid;

use super::table::key;

/// Legal keys that wire formats, filters, file formats and sort orders often handle wrongly.
pub const DIFFICULT_KEYS: [&str; 24] = [
    "",
    " ",
    " lead and trail ",
    "it's",
    "''",
    "%",
    "%2F",
    "100%25",
    "a+b",
    "a&b=c",
    "say \"hi\"",
    "<tag>",
    "a,b;c:d@e!$",
    "(x)[y]{z}",
    "--boundary",
    "~`^|*",
    ".",
    "..",
    "straße",
    "日本語",
    "e\u{301} and \u{e9}",
    "\u{1F600}",
    "\u{E000}\u{FFFD}",
    "null",
];

/// Keys at every boundary of the order of keys, sorted by UTF-16 code unit.
pub(super) const ORDERED_KEYS: [&str; 16] = [
    "",
    " ",
    "!",
    "0",
    "10",
    "2",
    "A",
    "B",
    "a",
    "a b",
    "aa",
    "z",
    "\u{e9}",
    "\u{1F600}",
    "\u{E000}",
    "\u{FFFD}",
];

/// A reproducible source of random numbers.
pub(super) fn random(seed: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed)
}

pub(super) fn pick<T: Clone>(rng: &mut fastrand::Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())].clone()
}

/// Returns a random value of the type, one of a few close values, so that comparisons have every result.
pub(super) fn some_value(rng: &mut fastrand::Rng, edm_type: EdmType) -> EdmValue {
    let small = rng.u8(..4);
    match edm_type {
        EdmType::Binary => {
            EdmValue::Binary(vec![small, 255 - small][..usize::from(small % 3)].to_vec())
        }
        EdmType::Boolean => small.is_multiple_of(2).into(),
        EdmType::DateTime => EdmValue::DateTime(moment(i64::from(small) * MILLISECOND)),
        EdmType::Double => (f64::from(small) - 1.5).into(),
        EdmType::Guid => Uuid::from_bytes([small; 16]).into(),
        EdmType::Int32 => (i32::from(small) - 2).into(),
        EdmType::Int64 => ((i64::from(small) - 2) << (u32::from(small) * 16)).into(),
        EdmType::String => (pick(rng, &["", "a", "a'b", "b", "\u{1F600}", "\u{E000}"])).into(),
    }
}

/// Ticks per millisecond.
pub(super) const MILLISECOND: i64 = 10_000;

/// 2013-01-01 plus some ticks, the resolution of the service.
pub(super) fn moment(ticks: i64) -> Ticks {
    Ticks::new(634_925_952_000_000_000 + ticks).expect("a moment of 2013")
}

/// The name of the property that holds values of a type.
pub(super) fn property(edm_type: EdmType) -> &'static str {
    edm_type.name().strip_prefix("Edm.").expect("a wire name")
}

/// Returns an entity with random properties of some of the eight types.
pub(super) fn some_entity(rng: &mut fastrand::Rng, key: Key) -> Entity {
    EdmType::ALL
        .into_iter()
        .fold(Entity::from(key), |entity, edm_type| {
            if rng.u8(..4) == 0 {
                entity
            } else {
                entity.with(property(edm_type), some_value(rng, edm_type))
            }
        })
}

pub(super) const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::GreaterThan,
    Comparison::GreaterThanOrEqual,
    Comparison::LessThan,
    Comparison::LessThanOrEqual,
];

/// Returns a random filter over keys and the properties of [`some_entity`]. Every literal has the type of its
/// property.
pub(super) fn some_filter(rng: &mut fastrand::Rng, keys: &[&str], depth: u32) -> Filter {
    if depth == 0 || rng.u8(..3) == 0 {
        return some_comparison(rng, keys);
    }
    let mut part = || some_filter(rng, keys, depth - 1);
    let (left, right) = (part(), part());
    match rng.u8(..5) {
        0 | 1 => left.and(right),
        2 | 3 => left.or(right),
        _ => !left,
    }
}

fn some_comparison(rng: &mut fastrand::Rng, keys: &[&str]) -> Filter {
    let comparison = pick(rng, &COMPARISONS);
    match rng.u8(..8) {
        0 | 1 => Filter::compare(Filter::PARTITION_KEY, comparison, pick(rng, keys)),
        2 | 3 => Filter::compare(Filter::ROW_KEY, comparison, pick(rng, keys)),
        _ => {
            let edm_type = pick(rng, &EdmType::ALL);
            Filter::compare(property(edm_type), comparison, some_value(rng, edm_type))
        }
    }
}

/// Returns a random key of two of these texts.
pub(super) fn some_key(rng: &mut fastrand::Rng, keys: &[&str]) -> Key {
    key(pick(rng, keys), pick(rng, keys))
}
