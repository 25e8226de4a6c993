use crate::model::{Properties, ValueRef};
use crate::query::Filter;
use crate::typed::{EntityPatch, FromEntity, PropertyGroup, TableEntity};

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(crate = crate, rename_all = "PascalCase")]
struct Address {
    street: String,
    city: Option<String>,
    #[encrypt]
    door_code: u16,
    #[entity(flatten)]
    place: Place,
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(crate = crate)]
struct Place {
    latitude: f64,
    #[entity(skip)]
    shown: bool,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Person", partition_key = "people", row_key = "{id:04}")]
struct Person {
    id: u16,
    name: String,
    #[entity(flatten)]
    address: Address,
    age: Option<u8>,
    #[entity(rest)]
    rest: Properties,
}

fn ada() -> Person {
    let address = Address {
        street: "1 Main".into(),
        city: Some("Oslo".into()),
        door_code: 7,
        place: Place {
            latitude: 59.9,
            shown: false,
        },
    };
    Person {
        id: 1,
        name: "Ada".into(),
        address,
        age: Some(36),
        rest: Properties::new(),
    }
}

#[test]
fn a_group_is_stored_as_properties_of_the_entity() {
    let entity = ada().to_entity().unwrap();
    let names: Vec<_> = entity
        .properties()
        .iter()
        .map(|p| p.name().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "EntityType",
            "name",
            "Street",
            "City",
            "DoorCode",
            "latitude",
            "age"
        ]
    );
    assert_eq!(
        names[1..],
        *Person::SCHEMA
            .properties
            .iter()
            .map(|p| p.name)
            .collect::<Vec<_>>()
    );
    assert!(entity.properties().find("DoorCode").unwrap().is_encrypted());
    assert_eq!(Person::requirements().encrypted, ["DoorCode"]);
    assert_eq!(Person::from_entity(entity).unwrap(), ada());
}

#[test]
fn a_field_of_a_group_can_be_compared() {
    let filter = Person::ADDRESS
        .field(Address::CITY)
        .eq("Oslo")
        .into_filter()
        .unwrap();
    assert_eq!(filter, Filter::eq("City", "Oslo"));
}

#[test]
fn an_error_in_a_group_names_the_entity() {
    let mut entity = ada().to_entity().unwrap();
    entity.properties_mut().remove("Street");
    let error = Person::from_entity(entity).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read Person ('people', '0001'): property 'Street'"),
        "{error}"
    );
}

#[test]
fn a_patch_sets_a_complete_group_and_removes_nothing() {
    let properties = Person::patch()
        .address(ada().address)
        .to_properties()
        .unwrap();
    assert_eq!(properties.get("latitude"), Some(ValueRef::Double(59.9)));
    let removing = Address {
        city: None,
        ..ada().address
    };
    let error = Person::patch()
        .address(removing)
        .to_properties()
        .unwrap_err()
        .to_string();
    assert!(error.contains("'City'"), "{error}");
    assert!(
        error.contains("a merge cannot remove a property of Person"),
        "{error}"
    );
}

#[test]
fn properties_without_a_field_survive_a_replace() {
    let mut stored = ada().to_entity().unwrap();
    stored.properties_mut().set("Shoe", 43);
    stored.properties_mut().set_encrypted("Pin", "1234");
    let read = Person::from_entity(stored).unwrap();
    assert_eq!(
        read.rest.iter().map(|p| p.name()).collect::<Vec<_>>(),
        ["Shoe", "Pin"]
    );
    let written = read.to_entity().unwrap();
    assert_eq!(written.get("Shoe"), Some(ValueRef::Int32(43)));
    assert!(written.properties().find("Pin").unwrap().is_encrypted());
}

#[test]
fn a_rest_field_cannot_contain_a_declared_property() {
    for name in ["name", "City", "EntityType"] {
        let mut person = Person { age: None, ..ada() };
        person.rest.set(name, "other");
        let error = person.to_entity().unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("Person declares it"),
            "{error}"
        );
    }
    let mut person = Person { age: None, ..ada() };
    person.rest.set("age", 7);
    assert!(
        person.to_entity().is_err(),
        "an absent field must not come back by the rest"
    );
}
