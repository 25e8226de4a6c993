//! Filters: every literal and operator, compared with local evaluation and with fixed answers.

use table_core::model::{EdmType, EdmValue, Entity, Ticks};
use table_core::query::{Comparison, Filter, Query};
use table_core::store::TableStore;
use table_core::typed::{Field, Property as _};
use uuid::Uuid;

use super::sample::{
    COMPARISONS, MILLISECOND, ORDERED_KEYS, moment, property, random, some_entity, some_filter,
};
use super::table::{entity, key, refused};
use super::{Deviation, Harness, TestTable};

/// Three values of each type, in their order; every operator finds the right ones.
pub(crate) async fn compare_every_type(h: &Harness) {
    let table = h.table().await;
    for row in 0..3 {
        let all = EdmType::ALL.into_iter();
        let of_row = all.fold(entity("p", &row.to_string()), |e, t| {
            e.with(property(t), ordered(t)[row].clone())
        });
        table.insert(of_row).await;
    }
    for edm_type in EdmType::ALL {
        for comparison in COMPARISONS {
            let rows: Vec<usize> = (0..3)
                .filter(|row| holds(comparison, row.cmp(&1)))
                .collect();
            let rows = if edm_type == EdmType::Boolean {
                boolean_rows(comparison)
            } else {
                rows
            };
            let literal = ordered(edm_type)[1].clone();
            finds(
                &table,
                Filter::compare(property(edm_type), comparison, literal),
                &rows,
            )
            .await;
        }
    }
}

/// Filters distinguish times that differ by 100 ns.
pub(crate) async fn compare_times_by_100_ns(h: &Harness) {
    if h.deviates(Deviation::DateTimesByMillisecond) {
        return;
    }
    let table = h.table().await;
    for row in 0..3 {
        table
            .insert(entity("p", &row.to_string()).with("At", moment(row)))
            .await;
    }
    finds(&table, Filter::eq("At", moment(1)), &[1]).await;
    finds(&table, Filter::lt("At", moment(1)), &[0]).await;
    finds(&table, Filter::gt("At", moment(1)), &[2]).await;
}

/// No comparison matches a missing property, `ne` included; `not` inverts that. *Assumed*: see the table in
/// [`table_core::query`] and <https://github.com/Azure/azure-storage-net/issues/696>.
pub(crate) async fn do_not_match_missing_properties(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "0").with("A", 1)).await;
    table.insert(entity("p", "1")).await;
    for comparison in COMPARISONS {
        let rows = if holds(comparison, 1.cmp(&1)) {
            &[0][..]
        } else {
            &[]
        };
        finds(&table, Filter::compare("A", comparison, 1), rows).await;
    }
    finds(&table, Filter::ne("A", 2), &[0]).await;
    finds(&table, !Filter::eq("A", 1), &[1]).await;
    finds(&table, !Filter::ne("A", 2), &[1]).await;
}

/// `and`, `or`, `not`, and nested filters.
pub(crate) async fn combine_with_and_or_not(h: &Harness) {
    let table = h.table().await;
    for n in 0..8 {
        let row = entity("p", &n.to_string());
        table
            .insert(
                row.with("A", n & 1 != 0)
                    .with("B", n & 2 != 0)
                    .with("C", n & 4 != 0),
            )
            .await;
    }
    let is = |name| Filter::eq(name, true);
    finds(&table, is("A").and(is("B")), &[3, 7]).await;
    finds(&table, is("A").or(is("B").and(is("C"))), &[1, 3, 5, 6, 7]).await;
    finds(&table, is("A").or(is("B")).and(is("C")), &[5, 6, 7]).await;
    finds(&table, is("A").and(is("B")).or(is("C")), &[3, 4, 5, 6, 7]).await;
    finds(&table, (!is("A")).and(is("B")), &[2, 6]).await;
    finds(&table, !is("A").and(is("B")), &[0, 1, 2, 4, 5, 6]).await;
    finds(&table, !(!is("A")).or(!is("B")), &[3, 7]).await;
}

/// Text literals with quotes, percent signs and characters of every length.
pub(crate) async fn text_literals_are_quoted(h: &Harness) {
    let table = h.table().await;
    let texts = [
        "it's",
        "''",
        "%27",
        "a+b&c=d",
        "x/y?z#w\\",
        "日本",
        "\u{1F600}",
        "",
        "tab\tnewline\n",
    ];
    for (n, text) in texts.iter().enumerate() {
        table
            .insert(entity("p", &n.to_string()).with("Text", *text))
            .await;
    }
    for (n, text) in texts.iter().enumerate() {
        finds(&table, Filter::eq("Text", *text), &[n]).await;
    }
}

/// Numbers at the limits of their ranges.
pub(crate) async fn compare_extreme_numbers(h: &Harness) {
    let table = h.table().await;
    let small = entity("p", "0")
        .with("I", i32::MIN)
        .with("L", i64::MIN)
        .with("D", -1.5);
    let large = entity("p", "1")
        .with("I", i32::MAX)
        .with("L", i64::MAX)
        .with("D", 0.1);
    table.insert(small).await;
    table.insert(large).await;
    for (name, least, most) in [
        ("I", EdmValue::from(i32::MIN), EdmValue::from(i32::MAX)),
        ("L", i64::MIN.into(), i64::MAX.into()),
        ("D", (-1.5).into(), 0.1.into()),
    ] {
        finds(&table, Filter::eq(name, least.clone()), &[0]).await;
        finds(&table, Filter::eq(name, most.clone()), &[1]).await;
        finds(&table, Filter::gt(name, least), &[1]).await;
        finds(&table, Filter::lt(name, most), &[0]).await;
    }
}

/// Doubles that only an exponent or a name can express.
pub(crate) async fn compare_extreme_doubles(h: &Harness) {
    if h.deviates(Deviation::DoubleLiterals) {
        return;
    }
    let table = h.table().await;
    for (n, value) in [-f64::MAX, f64::MIN_POSITIVE, 1e300, f64::INFINITY]
        .into_iter()
        .enumerate()
    {
        table
            .insert(entity("p", &n.to_string()).with("D", value))
            .await;
    }
    table.insert(entity("p", "9").with("D", f64::NAN)).await;
    finds(&table, Filter::eq("D", 1e300), &[2]).await;
    finds(&table, Filter::lt("D", f64::MIN_POSITIVE), &[0]).await;
    finds(&table, Filter::ge("D", f64::INFINITY), &[3]).await;
    finds(&table, Filter::gt("D", f64::NEG_INFINITY), &[0, 1, 2, 3]).await;
    finds(&table, Filter::eq("D", f64::NAN), &[]).await;
}

/// A literal of another type does not match; an integer literal also matches a wider number. *Assumed*: see the
/// table in [`table_core::query`].
pub(crate) async fn a_literal_of_another_type_does_not_match(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "0").with("A", 1)).await;
    table.insert(entity("p", "1").with("A", 1i64)).await;
    table.insert(entity("p", "2").with("A", 1.0)).await;
    table.insert(entity("p", "3").with("A", "1")).await;
    table.insert(entity("p", "4").with("A", true)).await;
    if !h.deviates(Deviation::Int64AsText) {
        finds(&table, Filter::eq("A", "1"), &[3]).await;
        finds(&table, Filter::eq("A", 1), &[0, 1, 2]).await;
    }
    finds(&table, Filter::eq("A", true), &[4]).await;
    if !h.deviates(Deviation::Int64LiteralOnInt32) {
        finds(&table, Filter::eq("A", 1i64), &[1, 2]).await;
    }
}

/// Several clients write one property as Int32 or as Int64. A filter finds both, unless the query asks for one
/// width.
pub(crate) async fn find_both_integer_widths(h: &Harness) {
    if h.deviates(Deviation::Int64LiteralOnInt32) {
        return;
    }
    const A: Field<(), i64> = Field::new("A");
    let (table, beyond) = (h.table().await, i64::from(i32::MAX) + 1);
    table.insert(entity("p", "0").with("A", 41)).await;
    table.insert(entity("p", "1").with("A", 41i64)).await;
    table.insert(entity("p", "2").with("A", beyond)).await;
    let found: [(_, &[usize]); 8] = [
        (A.gt(40), &[0, 1, 2]),
        (A.eq(41), &[0, 1]),
        (A.ne(41), &[2]),
        (A.le(41), &[0, 1]),
        (A.lt(beyond), &[0, 1]),
        (A.ge(-beyond - 1), &[0, 1, 2]),
        (A.exact_width().eq(41), &[1]),
        (A.exact_width().ge(41), &[1, 2]),
    ];
    for (condition, rows) in found {
        finds(&table, condition.into_filter().expect("a number"), rows).await;
    }
}

/// Other clients write whole numbers into a Double property. A typed filter finds and reads them. *Assumed*:
/// see [`Field`].
pub(crate) async fn find_whole_numbers_in_a_double_property(h: &Harness) {
    const A: Field<(), f64> = Field::new("A");
    let table = h.table().await;
    table.insert(entity("p", "0").with("A", 119.5)).await;
    table.insert(entity("p", "1").with("A", 120)).await;
    table.insert(entity("p", "2").with("A", 120.0)).await;
    table.insert(entity("p", "3").with("A", 121)).await;
    let as_text = h.deviates(Deviation::Int64AsText);
    if !as_text {
        table.insert(entity("p", "4").with("A", 122i64)).await;
    }
    let found: [(_, &[usize]); 8] = [
        (A.eq(120.0), &[1, 2]),
        (A.ne(120.0), &[0, 3, 4]),
        (A.gt(120.0), &[3, 4]),
        (A.ge(119.75), &[1, 2, 3, 4]),
        (A.lt(120.0), &[0]),
        (A.le(120.5), &[0, 1, 2]),
        (A.eq(119.5), &[0]),
        (A.gt(-1.0), &[0, 1, 2, 3, 4]),
    ];
    for (condition, rows) in found {
        let rows: Vec<usize> = rows
            .iter()
            .copied()
            .filter(|row| *row < 4 || !as_text)
            .collect();
        finds(&table, condition.into_filter().expect("a number"), &rows).await;
    }
    for row in table.all(&Query::new()).await {
        let value = f64::read(row.get("A").expect("a number")).expect("a Double");
        assert!((119.5..=122.0).contains(&value), "{value}");
    }
}

/// A filter can compare the time of the last write.
pub(crate) async fn compare_the_time_of_the_last_write(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "0")).await;
    let written = table
        .existing(&key("p", "0"))
        .await
        .timestamp()
        .expect("a time");
    finds(&table, Filter::eq("Timestamp", written), &[0]).await;
    finds(&table, Filter::gt("Timestamp", moment(0)), &[0]).await;
    finds(&table, Filter::lt("Timestamp", moment(0)), &[]).await;
}

/// Random filters find the same rows as local evaluation.
pub(crate) async fn random_filters_agree_with_local_evaluation(h: &Harness) {
    let mut rng = random(0xF117);
    let table = h.table().await;
    for partition in ORDERED_KEYS {
        let rows: Vec<_> = ORDERED_KEYS.iter().filter(|_| rng.bool()).collect();
        let rows: Vec<_> = rows
            .iter()
            .map(|row| some_entity(&mut rng, key(partition, row)))
            .collect();
        if !rows.is_empty() {
            table.load(partition, rows).await;
        }
    }
    let all = table.all(&Query::new()).await;
    for _ in 0..h.scale().steps / 10 {
        let filter = some_filter(&mut rng, &ORDERED_KEYS, 3);
        let expected: Vec<_> = all
            .iter()
            .filter(|e| filter.matches(e))
            .map(Entity::key)
            .cloned()
            .collect();
        assert_eq!(
            table.keys(&Query::new().with_filter(filter.clone())).await,
            expected,
            "{filter}"
        );
    }
}

/// A filter with the maximum number of comparisons is accepted; one more comparison is refused.
pub(crate) async fn have_a_maximum_number_of_comparisons(h: &Harness) {
    let Some(allowed) = h.profile().filter_comparisons else {
        return;
    };
    let table = h.table().await;
    table.insert(entity("p", "0").with("A", 1)).await;
    let many = |count: usize| {
        (1..count).fold(Filter::eq("A", 1), |all, n| {
            all.or(Filter::eq("A", n as i32))
        })
    };
    finds(&table, many(allowed), &[0]).await;
    let query = Query::new().with_filter(many(allowed + 1));
    assert!(refused(h.store().query(table.name(), &query, None).await).is_limit_exceeded());
}

/// Text with the syntax of a filter stays a value.
pub(crate) async fn text_with_filter_syntax_is_a_value(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "0").with("A", "x")).await;
    for text in ["x' or A ne '", "x' or 'a' eq 'a", "'", "') or (A eq 'x"] {
        finds(&table, Filter::eq("A", text), &[]).await;
    }
}

async fn finds(table: &TestTable, filter: Filter, rows: &[usize]) {
    let found = table.keys(&Query::new().with_filter(filter.clone())).await;
    let expected: Vec<_> = rows.iter().map(|row| key("p", &row.to_string())).collect();
    assert_eq!(found, expected, "{filter}");
}

fn holds(comparison: Comparison, order: std::cmp::Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::GreaterThan => order.is_gt(),
        Comparison::GreaterThanOrEqual => order.is_ge(),
        Comparison::LessThan => order.is_lt(),
        Comparison::LessThanOrEqual => order.is_le(),
    }
}

/// The rows that match among `false`, `true`, `true` compared with `true`. *Assumed*: `false` is less than
/// `true`.
fn boolean_rows(comparison: Comparison) -> Vec<usize> {
    (0..3)
        .filter(|row| holds(comparison, (*row > 0).cmp(&true)))
        .collect()
}

/// Three values of a type in ascending order. Boolean has only two values.
fn ordered(edm_type: EdmType) -> [EdmValue; 3] {
    match edm_type {
        EdmType::Binary => [vec![1u8].into(), vec![1u8, 0].into(), vec![2u8].into()],
        EdmType::Boolean => [false.into(), true.into(), true.into()],
        EdmType::DateTime => [
            moment(0).into(),
            moment(MILLISECOND).into(),
            Ticks::MAX.into(),
        ],
        EdmType::Double => [(-2.5).into(), 0.25.into(), 3.5.into()],
        EdmType::Guid => [1, 2, 3].map(|n| Uuid::from_bytes([n; 16]).into()),
        EdmType::Int32 => [(-5).into(), 0.into(), 7.into()],
        EdmType::Int64 => [
            (-5_000_000_000i64).into(),
            0i64.into(),
            7_000_000_000i64.into(),
        ],
        EdmType::String => ["it".into(), "it's".into(), "its".into()],
    }
}
