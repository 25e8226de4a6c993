use crate::model::{Entity, ValueRef};
use crate::query::Select;
use crate::typed::{FromEntity, TableEntity};

#[derive(Debug, TableEntity)]
#[entity(crate = crate, type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    first_name: String,
    age: u32,
    nickname: Option<String>,
    #[encrypt]
    badge: String,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, projection_of = Employee, rename_all = "PascalCase")]
struct Card {
    #[row_key]
    id: u32,
    age: u32,
    #[entity(default)]
    nickname: String,
    #[encrypt]
    badge: String,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, projection_of = Employee)]
struct KeyOnly {
    #[partition_key]
    department: String,
}

fn ken() -> Entity {
    let badge = "7".to_owned();
    let employee = Employee {
        department: "Sales".into(),
        id: 223,
        first_name: "Ken".into(),
        age: 41,
        nickname: None,
        badge,
    };
    employee.to_entity().unwrap()
}

#[test]
fn a_projection_selects_its_properties() {
    let expected = Select::new([
        "EntityType",
        "EntityVersion",
        "EntityReader",
        "Age",
        "Nickname",
        "Badge",
    ]);
    assert_eq!(Card::select(), Some(expected));
    assert_eq!(
        KeyOnly::select(),
        Some(Select::new(["EntityType", "EntityVersion", "EntityReader"]))
    );
    assert_eq!(Card::type_filter(), Employee::type_filter());
    assert_eq!(Card::requirements().encrypted, vec!["Badge"]);
    assert!(KeyOnly::requirements().encrypted.is_empty());
}

#[test]
fn a_projection_reads_properties_and_keys() {
    let card = Card {
        id: 223,
        age: 41,
        nickname: String::new(),
        badge: "7".into(),
    };
    assert_eq!(Card::from_entity(ken()).unwrap(), card);
    assert_eq!(KeyOnly::from_entity(ken()).unwrap().department, "Sales");
}

#[test]
fn a_projection_reads_only_its_type_and_version() {
    let other = Card::from_entity(ken().with("EntityType", "Department"))
        .unwrap_err()
        .to_string();
    assert!(
        other.contains("cannot read Card") && other.contains("found \"Department\""),
        "{other}"
    );
    let newer = Card::from_entity(ken().with("EntityVersion", 2))
        .unwrap_err()
        .to_string();
    assert!(newer.contains("at most version 1"), "{newer}");
    assert_eq!(ken().get("EntityType"), Some(ValueRef::String("Employee")));
}
