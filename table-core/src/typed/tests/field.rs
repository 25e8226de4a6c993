use crate::model::Entity;
use crate::query::{Comparison, Filter};
use crate::typed::{Condition, Field, Padded};

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
    assert_eq!(filter(NAME.ne(String::from("Ken"))), Filter::ne("Name", "Ken"));
    assert_eq!(filter(SERIAL.lt(7)), Filter::lt("Serial", "00000000000000000007"));
    assert_eq!(filter(AGE.exact_width().compare(Comparison::LessThan, 3)), Filter::lt("Age", 3i64));
    assert_eq!(filter(SMALL.gt(30)), Filter::gt("Small", 30));
    assert_eq!(filter(NAME.starts_with("K")), Filter::starts_with("Name", "K"));
}

#[test]
fn conditions_combine() {
    let both = filter(SMALL.ge(30).and(!NAME.eq("Ken")).or(BADGE.exact_width().eq(1)));
    let expected = Filter::ge("Small", 30).and(!Filter::eq("Name", "Ken")).or(Filter::eq("Badge", 1i64));
    assert_eq!(both, expected);
}

#[test]
fn a_value_that_cannot_be_stored_surfaces_with_the_filter() {
    let condition = AGE.gt(30).or(!BADGE.eq(u64::MAX));
    let error = condition.into_filter().unwrap_err().to_string();
    assert!(error.contains("'Badge'") && error.contains("18446744073709551615"), "{error}");
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
fn a_wide_number_finds_what_reads_accept() {
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
                let (narrow, wide) =
                    (row.clone().with("Balance", value), row.with("Balance", i64::from(value)));
                assert_eq!(
                    (found.matches(&narrow), found.matches(&wide)),
                    (holds, holds),
                    "{found} on {value}"
                );
            }
            for value in [i64::MIN, low - 1, high + 1, i64::MAX] {
                let row = Entity::new("p", "r").unwrap().with("Balance", value);
                assert_eq!(found.matches(&row), holds(comparison, value, literal), "{found} on {value}");
            }
        }
    }
    assert_eq!(filter(BALANCE.lt(high + 1)).comparisons(), 2);
    assert_eq!(filter(BALANCE.gt(high + 1)).comparisons(), 1);
    assert_eq!(filter(AGE.ne(40)).to_string(), "Age ne 40L and Age ne 40");
    assert_eq!(filter(!AGE.le(40)).to_string(), "not (Age le 40L or Age le 40)");
    assert_eq!(filter(NAME.exact_width().eq("Ken")), filter(NAME.eq("Ken")));
}
