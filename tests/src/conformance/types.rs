//! The eight types: every boundary value is read back unchanged.

use table_core::model::{EdmValue, IfMatch, Ticks};
use table_core::query::Query;
use table_core::store::Operation;
use uuid::Uuid;

use super::sample::moment;
use super::table::{assert_same, entity, key};
use super::{Deviation, Harness};

/// Zero, one and the ends of the range.
pub(crate) async fn int32(h: &Harness) {
    round_trip(h, [0, 1, -1, i32::MIN, i32::MAX]).await;
}

/// Including values that a double cannot represent.
pub(crate) async fn int64(h: &Harness) {
    let exact = (1i64 << 53) + 1;
    round_trip(
        h,
        [
            0,
            1,
            -1,
            exact,
            -exact,
            i64::from(i32::MAX) + 1,
            i64::MIN,
            i64::MAX,
        ],
    )
    .await;
}

/// Whole numbers stay doubles. NaN, the infinities and the sign of zero survive.
pub(crate) async fn double(h: &Harness) {
    let whole = [0.0, 1.0, -1.0, 1e15, 123_456_789.0];
    let broken = [
        0.1,
        -2.5,
        1.0 / 3.0,
        9_007_199_254_740_993.0,
        1e300,
        -1e-300,
    ];
    let extreme = [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, f64::EPSILON];
    let odd = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    round_trip(h, whole.into_iter().chain(broken).chain(extreme).chain(odd)).await;
    if !h.deviates(Deviation::NegativeZero) {
        round_trip(h, [-0.0]).await;
    }
}

/// Both values.
pub(crate) async fn boolean(h: &Harness) {
    round_trip(h, [true, false]).await;
}

/// The earliest and latest times, whole seconds, and times that differ by 100 ns.
pub(crate) async fn datetime(h: &Harness) {
    let earliest = Ticks::new(h.profile().datetime_min).expect("a moment");
    let unix_epoch = Ticks::from(chrono::DateTime::UNIX_EPOCH);
    let moments = [
        earliest,
        Ticks::MAX,
        unix_epoch,
        moment(0),
        moment(1),
        moment(1_234_567),
        moment(9_999_999),
    ];
    round_trip(h, moments).await;
}

/// Including the nil Guid and the maximum Guid.
pub(crate) async fn guid(h: &Harness) {
    let mixed = Uuid::from_u128(0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210);
    round_trip(h, [Uuid::nil(), Uuid::max(), mixed]).await;
}

/// No byte, one byte, every byte, and every padding of base64.
pub(crate) async fn binary(h: &Harness) {
    let every: Vec<u8> = (0..=255).collect();
    round_trip(h, [vec![], vec![0], vec![255, 254], vec![1, 2, 3], every]).await;
}

/// Empty text, quotes, control characters, and characters outside the first Unicode plane.
pub(crate) async fn string(h: &Harness) {
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
    let coded = [
        "2013-01-01T00:00:00Z",
        "123",
        "true",
        "NaN",
        "\u{0}",
        "\u{1}\t\r\n\u{1F}\u{7F}",
        "\u{2028}",
    ];
    let wide = [
        "straße",
        "日本語",
        "\u{1F600}\u{10FFFF}",
        "\u{FFFD}\u{FFFF}",
        "e\u{301}",
    ];
    round_trip(h, plain.into_iter().chain(coded).chain(wide)).await;
}

/// One entity with all eight types, in every write and read operation.
pub(crate) async fn all_types_in_one_entity(h: &Harness) {
    let table = h.table().await;
    let all = entity("p", "r")
        .with("Binary", vec![1u8, 2, 3])
        .with("Boolean", true)
        .with("DateTime", moment(1))
        .with("Double", 1.0)
        .with("Guid", Uuid::from_u128(7))
        .with("Int32", 7)
        .with("Int64", 7i64)
        .with("String", "7");
    table.insert(all.clone()).await;
    assert_same(
        table.existing(all.key()).await.properties(),
        all.properties(),
    );
    let ways = [
        Operation::InsertOrReplace(all.clone()),
        Operation::InsertOrMerge(all.clone()),
        Operation::Replace(all.clone(), IfMatch::Any),
        Operation::Merge(all.clone(), IfMatch::Any),
    ];
    for operation in ways {
        table
            .put(Operation::InsertOrReplace(entity("p", "r")))
            .await;
        table.transact("p", vec![operation]).await.expect("a group");
        let found = table.all(&Query::new()).await;
        assert_same(found[0].properties(), all.properties());
    }
}

/// Writes values as properties of one entity, and asserts that a get and a query return them bit by bit.
async fn round_trip<V: Into<EdmValue>>(h: &Harness, values: impl IntoIterator<Item = V>) {
    let table = h.table().await;
    let mut sent = entity("p", "r");
    for (n, value) in values.into_iter().enumerate() {
        sent = sent.with(&format!("V{n}"), value);
    }
    table.insert(sent.clone()).await;
    assert_same(
        table.existing(&key("p", "r")).await.properties(),
        sent.properties(),
    );
    assert_same(
        table.all(&Query::new()).await[0].properties(),
        sent.properties(),
    );
}
