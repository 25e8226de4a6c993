use uuid::Uuid;

use crate::model::{EdmValue, Entity, Ticks};
use crate::query::{Comparison, Filter};

use Comparison::*;

const ALL: [Comparison; 6] = [
    Equal,
    NotEqual,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
];

fn entity() -> Entity {
    let time = "2013-01-01T05:15:00.1234567Z".parse::<Ticks>().unwrap();
    Entity::new("Sales", "223")
        .unwrap()
        .with("Int32", 41)
        .with("Int64", 41_i64)
        .with("Double", 41.0)
        .with("String", "b")
        .with("Boolean", true)
        .with("DateTime", time)
        .with(
            "Guid",
            Uuid::from_u128(0x0100_0000_0000_0000_0000_0000_0000_0000),
        )
        .with("Binary", vec![1, 2])
        .with("NaN", f64::NAN)
        .with_system(None, Some(time))
}

/// Returns the operators that hold between a property of [`entity`] and a literal.
fn holding(property: &str, literal: impl Into<EdmValue>) -> Vec<Comparison> {
    let (entity, literal) = (entity(), literal.into());
    let holds = |c: &Comparison| Filter::compare(property, *c, literal.clone()).matches(&entity);
    ALL.into_iter().filter(holds).collect()
}

const BELOW: [Comparison; 3] = [NotEqual, LessThan, LessThanOrEqual];
const SAME: [Comparison; 3] = [Equal, GreaterThanOrEqual, LessThanOrEqual];
const ABOVE: [Comparison; 3] = [NotEqual, GreaterThan, GreaterThanOrEqual];

#[test]
fn values_of_the_same_type_compare_by_value() {
    let time = |text: &str| text.parse::<Ticks>().unwrap();
    let guid = |n: u128| Uuid::from_u128(n << 112);
    assert_eq!(holding("Int32", 42), BELOW);
    assert_eq!(holding("Int32", 41), SAME);
    assert_eq!(holding("Int32", -42), ABOVE);
    assert_eq!(holding("Int64", 42_i64), BELOW);
    assert_eq!(holding("Int64", 41_i64), SAME);
    assert_eq!(holding("Double", 41.5), BELOW);
    assert_eq!(holding("Double", 41.0), SAME);
    assert_eq!(holding("Double", f64::NEG_INFINITY), ABOVE);
    assert_eq!(holding("String", "b"), SAME);
    assert_eq!(holding("String", "ba"), BELOW);
    assert_eq!(holding("String", "B"), ABOVE);
    assert_eq!(holding("Boolean", true), SAME);
    assert_eq!(
        holding("DateTime", time("2013-01-01T05:15:00.1234568Z")),
        BELOW
    );
    assert_eq!(
        holding("DateTime", time("2013-01-01T05:15:00.1234567Z")),
        SAME
    );
    assert_eq!(holding("Guid", guid(0x0100)), SAME);
    assert_eq!(holding("Binary", vec![1, 2]), SAME);
}

#[test]
fn assumed_order_of_boolean_guid_and_binary() {
    // The service documents no order for these types; this is .NET's order of Guids, and the service runs on
    // .NET.
    assert_eq!(holding("Boolean", false), ABOVE);
    assert_eq!(holding("Guid", Uuid::from_u128(1 << 127)), BELOW);
    assert_eq!(holding("Binary", vec![1]), ABOVE);
    assert_eq!(holding("Binary", vec![2]), BELOW);
}

#[test]
fn text_compares_by_utf16_code_unit() {
    let entity = Entity::new("\u{1F600}", "")
        .unwrap()
        .with("Text", "\u{1F600}");
    for property in ["PartitionKey", "Text"] {
        assert!(
            Filter::lt(property, "\u{E000}").matches(&entity),
            "{property}"
        );
        assert!(
            Filter::gt(property, "\u{D7FF}").matches(&entity),
            "{property}"
        );
    }
}

#[test]
fn keys_and_timestamp_are_properties() {
    let time = entity().timestamp().unwrap();
    assert_eq!(holding("PartitionKey", "Sales"), SAME);
    assert_eq!(holding("RowKey", "3"), BELOW);
    assert_eq!(holding("Timestamp", time), SAME);
    assert_eq!(holding("partitionkey", "Sales"), []);
}

/// <https://github.com/Azure/Azurite/issues/1929>
#[test]
fn no_comparison_holds_for_a_missing_property() {
    assert_eq!(holding("Missing", "x"), []);
    let unsaved = Entity::new("a", "b").unwrap();
    assert!(!Filter::ne("Timestamp", Ticks::MIN).matches(&unsaved));
}

/// <https://github.com/Azure/azure-storage-net/issues/696>
#[test]
fn not_holds_for_a_missing_property() {
    assert!((!Filter::ge("Missing", Ticks::MIN)).matches(&entity()));
    assert!((!Filter::ne("Missing", 1)).matches(&entity()));
    assert!(!(!(!Filter::ne("Missing", 1))).matches(&entity()));
}

/// `ne` between types: <https://github.com/Azure/azure-sdk-for-net/issues/38590>. That no other operator
/// holds is *assumed* from "The constant value must be of the same data type as the property in order for the
/// filter to return valid results"
/// (<https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities>).
#[test]
fn assumed_a_literal_of_another_type_is_only_not_equal() {
    assert_eq!(holding("DateTime", ""), [NotEqual]);
    assert_eq!(holding("String", 1), [NotEqual]);
    assert_eq!(holding("Int32", "41"), [NotEqual]);
    assert_eq!(holding("Boolean", 1), [NotEqual]);
    assert_eq!(holding("RowKey", 223), [NotEqual]);
    assert!((!Filter::eq("String", 1)).matches(&entity()));
}

/// An Int32 literal finds an Int64: <https://github.com/microsoft/AzureStorageExplorer/issues/5346>. The same
/// widening is *assumed* for a Double: `Price le 200 and Price gt 3.5` is an example of
/// <https://learn.microsoft.com/visualstudio/azure/vs-azure-tools-table-designer-construct-filter-strings>.
#[test]
fn assumed_an_integer_literal_is_widened_to_the_property() {
    assert_eq!(holding("Int64", 41), SAME);
    assert_eq!(holding("Int64", 42), BELOW);
    assert_eq!(holding("Double", 41), SAME);
    assert_eq!(holding("Double", 42), BELOW);
    assert_eq!(holding("Double", 41_i64), SAME);
    assert_eq!(holding("Double", 40_i64), ABOVE);
}

/// An Int64 literal does not find an Int32: <https://github.com/microsoft/AzureStorageExplorer/issues/5346>.
/// *Assumed* for Doubles too.
#[test]
fn assumed_a_property_is_not_widened_to_the_literal() {
    assert_eq!(holding("Int32", 41_i64), [NotEqual]);
    assert_eq!(holding("Int32", 41.0), [NotEqual]);
    assert_eq!(holding("Int64", 41.0), [NotEqual]);
}

#[test]
fn assumed_nan_is_only_not_equal() {
    // IEEE 754, like .NET's operators.
    assert_eq!(holding("NaN", f64::NAN), [NotEqual]);
    assert_eq!(holding("NaN", 1.0), [NotEqual]);
    assert_eq!(holding("Double", f64::NAN), [NotEqual]);
}

#[test]
fn and_or_not() {
    let (yes, no) = (Filter::eq("Int32", 41), Filter::eq("Int32", 1));
    let check = |filter: Filter| filter.matches(&entity());
    assert!(check(yes.clone().and(yes.clone())) && !check(yes.clone().and(no.clone())));
    assert!(check(no.clone().or(yes.clone())) && !check(no.clone().or(no.clone())));
    assert!(check(!no) && !check(!yes));
}

#[test]
fn a_prefix_matches_all_texts_that_start_with_it() {
    let entity = |row: &str| Entity::new("", row).unwrap();
    let prefix = Filter::starts_with("RowKey", "a\u{D7FF}");
    assert!(prefix.matches(&entity("a\u{D7FF}\u{FFFF}")));
    assert!(!prefix.matches(&entity("a\u{10000}")));
    assert!(!prefix.matches(&entity("a")));
}
