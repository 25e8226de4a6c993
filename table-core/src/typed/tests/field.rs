use std::cmp::Ordering;

use crate::model::{EdmValue, Entity};
use crate::query::{Comparison, Filter};
use crate::typed::{Condition, Field, Padded, Property as _};

struct Employee;

const AGE: Field<Employee, u32> = Field::new("Age");
const SMALL: Field<Employee, u16> = Field::new("Small");
const NAME: Field<Employee, String> = Field::new("Name");
const BADGE: Field<Employee, u64> = Field::new("Badge");
const SERIAL: Field<Employee, u64, Padded> = Field::new("Serial");

fn filter(condition: Condition<Employee>) -> Filter {
    condition.into_filter().unwrap()
}

#[test]
fn a_comparison_has_the_stored_type() {
    let zed = String::from("Z");
    assert_eq!(filter(AGE.exact_width().gt(30)), Filter::gt("Age", 30i64));
    assert_eq!(filter(NAME.le(&zed)), Filter::le("Name", "Z"));
    assert_eq!(filter(NAME.eq("Ken")), Filter::eq("Name", "Ken"));
    assert_eq!(
        filter(NAME.ne(String::from("Ken"))),
        Filter::ne("Name", "Ken")
    );
    assert_eq!(
        filter(SERIAL.lt(7)),
        Filter::lt("Serial", "00000000000000000007")
    );
    assert_eq!(
        filter(AGE.exact_width().compare(Comparison::LessThan, 3)),
        Filter::lt("Age", 3i64)
    );
    assert_eq!(filter(SMALL.gt(30)), Filter::gt("Small", 30));
    assert_eq!(
        filter(NAME.starts_with("K")),
        Filter::starts_with("Name", "K")
    );
}

#[test]
fn conditions_combine() {
    let both = filter(
        SMALL
            .ge(30)
            .and(!NAME.eq("Ken"))
            .or(BADGE.exact_width().eq(1)),
    );
    let expected = Filter::ge("Small", 30)
        .and(!Filter::eq("Name", "Ken"))
        .or(Filter::eq("Badge", 1i64));
    assert_eq!(both, expected);
}

#[test]
fn a_value_that_cannot_be_stored_surfaces_with_the_filter() {
    let condition = AGE.gt(30).or(!BADGE.eq(u64::MAX));
    let error = condition.into_filter().unwrap_err().to_string();
    assert!(
        error.contains("'Badge'") && error.contains("18446744073709551615"),
        "{error}"
    );
}

fn holds(comparison: Comparison, value: i64, literal: i64) -> bool {
    match comparison {
        Comparison::Equal => value == literal,
        Comparison::NotEqual => value != literal,
        Comparison::GreaterThan => value > literal,
        Comparison::GreaterThanOrEqual => value >= literal,
        Comparison::LessThan => value < literal,
        Comparison::LessThanOrEqual => value <= literal,
    }
}

/// Typed reads of these fields accept an Int32, which other clients write for small numbers.
#[test]
fn comparisons_find_all_numbers_that_reads_accept() {
    const BALANCE: Field<Employee, i64> = Field::new("Balance");
    const COMPARISONS: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::GreaterThan,
        Comparison::GreaterThanOrEqual,
        Comparison::LessThan,
        Comparison::LessThanOrEqual,
    ];
    let stored = [i32::MIN, -1, 0, 41, i32::MAX];
    let (low, high) = (i64::from(i32::MIN), i64::from(i32::MAX));
    for literal in [i64::MIN, low - 1, low, -1, 0, 41, high, high + 1, i64::MAX] {
        for comparison in COMPARISONS {
            let found = filter(BALANCE.compare(comparison, literal));
            for value in stored {
                let holds = holds(comparison, i64::from(value), literal);
                let row = Entity::new("p", "r").unwrap();
                let (narrow, wide) = (
                    row.clone().with("Balance", value),
                    row.with("Balance", i64::from(value)),
                );
                assert_eq!(
                    (found.matches(&narrow), found.matches(&wide)),
                    (holds, holds),
                    "{found} on {value}"
                );
            }
            for value in [i64::MIN, low - 1, high + 1, i64::MAX] {
                let row = Entity::new("p", "r").unwrap().with("Balance", value);
                assert_eq!(
                    found.matches(&row),
                    holds(comparison, value, literal),
                    "{found} on {value}"
                );
            }
        }
    }
    assert_eq!(filter(BALANCE.lt(high + 1)).comparisons(), 2);
    assert_eq!(filter(BALANCE.gt(high + 1)).comparisons(), 1);
    assert_eq!(filter(AGE.ne(40)).to_string(), "Age ne 40L and Age ne 40");
    assert_eq!(
        filter(!AGE.le(40)).to_string(),
        "not (Age le 40L or Age le 40)"
    );
    assert_eq!(filter(NAME.exact_width().eq("Ken")), filter(NAME.eq("Ken")));
}

/// Every number that a read takes is found exactly where it compares so, and no other: Doubles, Int32s and Int64s around
/// literals around every limit.
#[test]
fn a_comparison_of_a_double_finds_whole_numbers() {
    const PRICE: Field<Employee, f64> = Field::new("Price");
    let (int32, int64) = (f64::from(i32::MAX), i64::MAX as f64);
    let mut literals = vec![
        0.0,
        -0.0,
        0.5,
        -0.5,
        119.5,
        120.0,
        1e18 + 2048.0,
        9_007_199_254_740_992.0,
    ];
    for limit in [int32, -int32 - 1.0, int64, -int64, 1e300, f64::INFINITY] {
        literals.extend([
            limit,
            -limit,
            limit - 0.5,
            limit + 0.5,
            limit + 1.0,
            limit - 1.0,
        ]);
    }
    let mut rows: Vec<EdmValue> = Vec::new();
    for literal in &literals {
        let whole = *literal as i64;
        let near = [whole.saturating_sub(1), whole, whole.saturating_add(1)];
        rows.extend(near.iter().map(|n| EdmValue::from(*n)));
        rows.extend(
            near.iter()
                .filter_map(|n| i32::try_from(*n).ok())
                .map(EdmValue::from),
        );
        rows.extend(
            [
                *literal,
                literal.next_up(),
                literal.next_down(),
                literal - 0.25,
            ]
            .map(EdmValue::from),
        );
    }
    use Comparison::{Equal, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, NotEqual};
    for comparison in [
        Equal,
        NotEqual,
        GreaterThan,
        GreaterThanOrEqual,
        LessThan,
        LessThanOrEqual,
    ] {
        for literal in &literals {
            let found = filter(PRICE.compare(comparison, *literal));
            assert!(found.comparisons() <= 3, "{found}");
            for value in rows
                .iter()
                .filter(|value| f64::read(value.as_ref()).is_ok())
            {
                let row = Entity::new("p", "r").unwrap().with("Price", value.clone());
                let order = match value {
                    EdmValue::Double(value) => value.partial_cmp(literal),
                    EdmValue::Int32(value) => f64::from(*value).partial_cmp(literal),
                    EdmValue::Int64(value) => exactly(*value, *literal),
                    other => panic!("{other:?}"),
                };
                let expected = match comparison {
                    Comparison::Equal => order == Some(Ordering::Equal),
                    Comparison::NotEqual => order != Some(Ordering::Equal),
                    Comparison::GreaterThan => order == Some(Ordering::Greater),
                    Comparison::GreaterThanOrEqual => order.is_some_and(Ordering::is_ge),
                    Comparison::LessThan => order == Some(Ordering::Less),
                    Comparison::LessThanOrEqual => order.is_some_and(Ordering::is_le),
                };
                assert_eq!(found.matches(&row), expected, "{found} on {value:?}");
            }
        }
    }
    assert_eq!(
        filter(PRICE.gt(9.5)).to_string(),
        "Price gt 9.5 or Price ge 10"
    );
    assert_eq!(
        filter(PRICE.le(120.0)).to_string(),
        "Price le 120.0 or Price le 120"
    );
    assert_eq!(filter(PRICE.eq(9.5)).to_string(), "Price eq 9.5");
    assert_eq!(
        filter(PRICE.ne(9.0)).to_string(),
        "Price ne 9.0 and Price ne 9"
    );
    assert_eq!(
        filter(PRICE.exact_width().gt(9.0)),
        Filter::gt("Price", 9.0)
    );
    assert_eq!(filter(PRICE.gt(f64::NAN)).comparisons(), 1);
}

/// An integer and a Double, as numbers and not as rounded ones.
fn exactly(value: i64, literal: f64) -> Option<Ordering> {
    let whole = literal.clamp(-1e19, 1e19).floor();
    let by_whole = i128::from(value).cmp(&(whole as i128));
    // With equal integer parts, a literal with a fraction is the greater number.
    Some(if by_whole.is_eq() && whole < literal {
        Ordering::Less
    } else {
        by_whole
    })
}
