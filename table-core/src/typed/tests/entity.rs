use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::model::{ETag, Entity, Ticks, ValueRef};
use crate::query::Filter;
use crate::typed::{Discriminator, EntityPatch, FromEntity, RowPrefix, TableEntity};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Skill {
    name: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    first_name: String,
    age: u32,
    hired: DateTime<Utc>,
    #[encrypt]
    national_id: String,
    nickname: Option<String>,
    #[entity(json)]
    skills: Vec<Skill>,
    #[entity(default)]
    visits: i32,
    #[entity(skip)]
    cached: bool,
    #[etag]
    etag: Option<ETag>,
    #[timestamp]
    written: Option<DateTime<Utc>>,
}

fn ken() -> Employee {
    Employee {
        department: "Sales".into(),
        id: 223,
        first_name: "Ken".into(),
        age: 41,
        hired: DateTime::UNIX_EPOCH,
        national_id: "secret-7".into(),
        nickname: None,
        skills: vec![Skill {
            name: "golf".into(),
        }],
        visits: 3,
        cached: false,
        etag: None,
        written: None,
    }
}

#[test]
fn an_entity_reads_back() {
    let entity = ken().to_entity().unwrap();
    assert_eq!(entity.key().to_string(), "('Sales', 'empid_000223')");
    let names: Vec<_> = entity
        .properties()
        .iter()
        .map(|p| p.name().to_owned())
        .collect();
    let expected = [
        "EntityType",
        "FirstName",
        "Age",
        "Hired",
        "NationalId",
        "Skills",
        "Visits",
    ];
    assert_eq!(names, expected);
    assert!(
        entity
            .properties()
            .find("NationalId")
            .unwrap()
            .is_encrypted()
    );
    assert_eq!(Employee::from_entity(entity).unwrap(), ken());
}

#[test]
fn etag_and_timestamp_are_read() {
    let etag = ETag::from_version(7);
    let entity = ken()
        .to_entity()
        .unwrap()
        .with_system(Some(etag.clone()), Some(Ticks::MAX));
    let read = Employee::from_entity(entity).unwrap();
    assert_eq!(TableEntity::etag(&read), Some(&etag));
    assert_eq!(read.written, Some(Ticks::MAX.to_datetime()));
}

#[test]
fn properties_in_any_order_are_found() {
    let entity = ken().to_entity().unwrap();
    let (key, properties) = entity.into_parts();
    let mut reversed = crate::model::Properties::new();
    let mut all: Vec<_> = properties.iter().collect();
    all.reverse();
    all.iter()
        .for_each(|p| reversed.push(p.name(), p.value(), p.is_encrypted()));
    assert_eq!(
        Employee::from_entity(Entity::from_parts(key, reversed)).unwrap(),
        ken()
    );
}

/// The error of reading `ken()` after a change.
/// The fast decoder handles properties in order only. Properties in any other order must give the same result.
#[test]
fn disorder_strangers_and_repetitions_read_the_same() {
    let (key, properties) = ken().to_entity().unwrap().into_parts();
    let all: Vec<_> = properties.iter().collect();
    let read = |list: &[crate::model::PropertyRef<'_>]| {
        let mut bag = crate::model::Properties::new();
        list.iter()
            .for_each(|p| bag.push(p.name(), p.value(), p.is_encrypted()));
        Employee::from_entity(Entity::from_parts(key.clone(), bag)).unwrap()
    };
    let stranger = crate::model::Properties::from_iter([("Stranger", 1)]);
    let stranger = stranger.iter().next().unwrap();
    for at in 0..=all.len() {
        let mut with = all.clone();
        with.insert(at, stranger);
        assert_eq!(read(&with), ken(), "a stranger at {at}");
    }
    for (from, to) in (0..all.len()).flat_map(|from| (0..all.len()).map(move |to| (from, to))) {
        let mut moved = all.clone();
        let taken = moved.remove(from);
        moved.insert(to, taken);
        assert_eq!(read(&moved), ken(), "{from} at {to}");
    }
    let mut other = ken().to_entity().unwrap();
    other.properties_mut().set("Visits", 99);
    let repeated = other.properties().find("Visits").unwrap();
    assert_eq!(
        read(&[all.as_slice(), &[repeated]].concat()),
        ken(),
        "the first of a name counts"
    );
}

fn error_after(change: impl FnOnce(&mut crate::model::Properties)) -> String {
    let mut entity = ken().to_entity().unwrap();
    change(entity.properties_mut());
    Employee::from_entity(entity).unwrap_err().to_string()
}

#[test]
fn errors_name_entity_property_expected_and_found() {
    let at = "cannot read Employee ('Sales', 'empid_000223'): property";
    let missing = error_after(|p| assert!(p.remove("Age")));
    let remedy = "if older rows do not have it, make the field an `Option`, give it a `default`, or declare a new schema `version`";
    assert_eq!(
        missing,
        format!("{at} 'Age': expected Edm.Int64, found no such property; {remedy}")
    );
    let wrong = error_after(|p| p.set("Age", "41"));
    assert_eq!(
        wrong,
        format!("{at} 'Age': expected Edm.Int64, found Edm.String")
    );
    let range = error_after(|p| p.set("Age", -1));
    assert_eq!(
        range,
        format!("{at} 'Age': expected a number in the range of u32, found -1")
    );
    let other = error_after(|p| p.set("EntityType", "Department"));
    assert_eq!(
        other,
        format!("{at} 'EntityType': expected the type \"Employee\", found \"Department\"")
    );
    let newer = error_after(|p| p.set("EntityVersion", 2));
    assert_eq!(
        newer,
        format!(
            "{at} 'EntityVersion': expected at most version 1, the latest version that this program can read, found 2"
        )
    );
}

#[test]
fn a_marked_field_is_only_read_from_a_marked_property_and_never_shown() {
    let plain = error_after(|p| p.set_plain("NationalId", "secret-7"));
    assert!(
        plain.contains("expected an encrypted property, found a property that is not encrypted"),
        "{plain}"
    );
    let wrong = error_after(|p| p.set_encrypted("NationalId", 1_234_567));
    assert!(wrong.contains("'NationalId'"), "{wrong}");
    assert!(!wrong.contains("1234567"), "{wrong}");
    let marked = error_after(|p| p.set_encrypted("Age", 41));
    assert!(
        marked.contains("expected a property that is not encrypted, found an encrypted property"),
        "{marked}"
    );
}

#[test]
fn absent_properties_are_none_or_their_default() {
    let mut entity = ken().to_entity().unwrap();
    entity.properties_mut().remove("Visits");
    let read = Employee::from_entity(entity).unwrap();
    assert_eq!(read.visits, 0);
    assert_eq!(read.nickname, None);
}

#[test]
fn typed_keys_accept_operands() {
    let key = Employee::key("Sales", 223).unwrap();
    assert_eq!(key, ken().entity_key().unwrap());
    assert_eq!(
        Employee::partition(String::from("a/b"))
            .unwrap()
            .partition_key()
            .as_str(),
        "a~2Fb"
    );
    let error = Employee::key("Sales", 1_000_000).unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid RowKey \"empid_{id:06}\": id: expected at most 6 digits, found 1000000"
    );
}

#[test]
fn fields_are_constants_with_the_stored_name() {
    let filter = Employee::AGE
        .gt(30)
        .and(Employee::NICKNAME.eq("Kenny"))
        .into_filter()
        .unwrap();
    let either = Filter::gt("Age", 30i64).or(Filter::gt("Age", 30));
    assert_eq!(filter, either.and(Filter::eq("Nickname", "Kenny")));
    assert_eq!(Employee::NATIONAL_ID.name(), "NationalId");
    let late = Employee::WRITTEN
        .gt(DateTime::UNIX_EPOCH)
        .into_filter()
        .unwrap();
    assert_eq!(
        late,
        Filter::gt("Timestamp", Ticks::from(DateTime::UNIX_EPOCH))
    );
}

#[test]
fn the_schema_describes_the_stored_properties() {
    let schema = Employee::SCHEMA;
    assert_eq!(schema.rust_name, "Employee");
    assert_eq!(schema.type_name, "Employee");
    assert_eq!(schema.version, 1);
    assert_eq!(
        schema.discriminator,
        Discriminator::Property("EntityType".into())
    );
    assert_eq!(schema.partition_key, "{department}");
    assert_eq!(schema.row_key, "empid_{id:06}");
    let optional: Vec<_> = schema
        .properties
        .iter()
        .filter(|p| p.optional)
        .map(|p| p.name)
        .collect();
    assert_eq!(optional, ["Nickname", "Visits"]);
    assert_eq!(Employee::requirements().encrypted, ["NationalId"]);
    assert_eq!(
        Employee::type_filter(),
        Some(Filter::eq("EntityType", "Employee"))
    );
    assert_eq!(Employee::select(), None);
}

#[test]
fn a_patch_contains_only_the_set_fields() {
    let patch = Employee::patch()
        .age(42)
        .nickname("Kenny")
        .national_id("secret-8");
    assert_eq!(
        format!("{patch:?}"),
        r#"EmployeePatch{"age", "national_id", "nickname"}"#
    );
    let properties = patch.to_properties().unwrap();
    assert_eq!(properties.get("Age"), Some(ValueRef::Int64(42)));
    assert_eq!(properties.len(), 3);
    assert!(properties.find("NationalId").unwrap().is_encrypted());
    assert!(Employee::patch().to_properties().unwrap().is_empty());
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, discriminator(row_prefix), partition_key = "{employee:06}", row_key = "review_{department}_{employee:06}_{year}_{title}")]
struct Review {
    employee: u32,
    department: String,
    year: u16,
    title: String,
}

/// The text of a prefix.
fn text(prefix: impl Into<RowPrefix<Review>>) -> String {
    prefix.into().into_text().unwrap()
}

#[test]
fn a_row_prefix_grows_part_by_part() {
    assert_eq!(text(Review::row_prefix()), "review_");
    assert_eq!(
        text(Review::row_prefix().department_starting("Sa_")),
        "review_Sa~5F"
    );
    assert_eq!(
        text(Review::row_prefix().department("Sales")),
        "review_Sales_"
    );
    let row = Review::row_prefix().department("Sales").employee(7);
    assert_eq!(text(row), "review_Sales_000007_");
    let row = Review::row_prefix()
        .department("Sales")
        .employee(7)
        .year(2013u16)
        .title_starting("A_");
    assert_eq!(text(row), "review_Sales_000007_02013_A_");
    let error =
        RowPrefix::from(Review::row_prefix().department("S").employee(1_000_000)).into_text();
    assert!(error.unwrap_err().to_string().contains("at most 6 digits"));
}

#[test]
fn a_field_in_both_keys_must_agree() {
    let review = Review {
        employee: 7,
        department: "a_b".into(),
        year: 2013,
        title: "x_y".into(),
    };
    let entity = review.to_entity().unwrap();
    assert_eq!(
        entity.key().to_string(),
        "('000007', 'review_a~5Fb_000007_02013_x_y')"
    );
    assert_eq!(Review::from_entity(entity.clone()).unwrap(), review);
    assert_eq!(
        Review::key(7, "a_b", 2013, "x_y").unwrap().key(),
        entity.key()
    );
    let other = Entity::new("000008", entity.key().row()).unwrap();
    assert!(
        Review::from_entity(other)
            .unwrap_err()
            .to_string()
            .contains("the same employee")
    );
}
