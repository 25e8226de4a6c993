use crate::query::{Comparison, Filter};
use crate::typed::{Condition, Field, Padded};

struct Employee;

const AGE: Field<Employee, u32> = Field::new("Age");
const NAME: Field<Employee, String> = Field::new("Name");
const BADGE: Field<Employee, u64> = Field::new("Badge");
const SERIAL: Field<Employee, u64, Padded> = Field::new("Serial");

fn filter(condition: Condition<Employee>) -> Filter {
    condition.into_filter().unwrap()
}

#[test]
fn a_comparison_has_the_stored_type() {
    let zed = String::from("Z");
    assert_eq!(filter(AGE.gt(30)), Filter::gt("Age", 30i64));
    assert_eq!(filter(NAME.le(&zed)), Filter::le("Name", "Z"));
    assert_eq!(filter(NAME.eq("Ken")), Filter::eq("Name", "Ken"));
    assert_eq!(filter(NAME.ne(String::from("Ken"))), Filter::ne("Name", "Ken"));
    assert_eq!(filter(SERIAL.lt(7)), Filter::lt("Serial", "00000000000000000007"));
    assert_eq!(filter(AGE.compare(Comparison::LessThan, 3)), Filter::lt("Age", 3i64));
    assert_eq!(filter(NAME.starts_with("K")), Filter::starts_with("Name", "K"));
}

#[test]
fn conditions_combine() {
    let both = filter(AGE.ge(30).and(!NAME.eq("Ken")).or(BADGE.eq(1)));
    let expected = Filter::ge("Age", 30i64).and(!Filter::eq("Name", "Ken")).or(Filter::eq("Badge", 1i64));
    assert_eq!(both, expected);
}

#[test]
fn a_value_that_cannot_be_stored_surfaces_with_the_filter() {
    let condition = AGE.gt(30).or(!BADGE.eq(u64::MAX));
    let error = condition.into_filter().unwrap_err().to_string();
    assert!(error.contains("'Badge'") && error.contains("18446744073709551615"), "{error}");
}
