//! Fields that had other names, and rows of earlier programs and other clients.

use serde_json::json;

use crate::memory::MemoryStore;
use crate::model::{Entity, Properties, ValueRef};
use crate::typed::{FromEntity, PlainTable, PropertyGroup, TableEntity};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Employee", rename_all = "PascalCase", partition_key = "all", row_key = "{id}")]
struct Employee {
    id: u32,
    #[entity(alias = "LastName", alias = "FamilyName")]
    surname: Option<String>,
    #[entity(default, alias = "Years")]
    age: i64,
    #[entity(json, alias = "Tags")]
    skills: Vec<String>,
    #[entity(alias = "Pin")]
    #[encrypt]
    code: Option<String>,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, projection_of = Employee, rename_all = "PascalCase")]
struct Surname {
    #[entity(alias = "LastName")]
    surname: Option<String>,
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(crate = crate, rename_all = "PascalCase")]
struct Address {
    #[entity(alias = "Town")]
    city: String,
    #[entity(default)]
    zip: String,
    #[entity(flatten(prefix = "Geo"))]
    place: Place,
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(crate = crate, rename_all = "PascalCase")]
struct Place {
    #[entity(alias = "Lat")]
    latitude: f64,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, partition_key = "all", row_key = "{id}")]
struct Customer {
    id: u32,
    #[entity(flatten(prefix = "Home"))]
    home: Address,
    #[entity(flatten(prefix = "Work"))]
    work: Address,
    #[entity(rest)]
    rest: Properties,
}

fn row() -> Entity {
    Entity::new("all", "0000000001")
        .unwrap()
        .with("EntityType", "Employee")
}

#[test]
fn a_former_name_is_read_and_the_name_is_written() {
    let old = row()
        .with("FamilyName", "Kwok")
        .with("Years", 41)
        .with("Tags", "[\"Go\"]")
        .with_encrypted("Pin", "1");
    let employee = Employee::from_entity(old.clone()).unwrap();
    let code = Some("1".to_owned());
    assert_eq!(
        employee,
        Employee {
            id: 1,
            surname: Some("Kwok".into()),
            age: 41,
            skills: vec!["Go".into()],
            code
        }
    );
    let mut new = employee.to_entity().unwrap();
    Employee::SCHEMA
        .keep_unknown(&old.with("Shoe", 43), &mut new)
        .unwrap();
    let names: Vec<_> = new
        .properties()
        .iter()
        .map(|p| p.name().to_owned())
        .collect();
    assert_eq!(
        names,
        ["EntityType", "Surname", "Age", "Skills", "Code", "Shoe"],
        "the former names are gone"
    );
    assert_eq!(Employee::from_entity(new).unwrap(), employee);
}

#[test]
fn the_name_counts_before_its_aliases() {
    let both = row()
        .with("FamilyName", "c")
        .with("LastName", "b")
        .with("Surname", "a")
        .with("Skills", "[]");
    assert_eq!(
        Employee::from_entity(both).unwrap().surname.as_deref(),
        Some("a")
    );
    let former = row()
        .with("FamilyName", "c")
        .with("LastName", "b")
        .with("Skills", "[]");
    let read = Employee::from_entity(former).unwrap();
    assert_eq!(read.surname.as_deref(), Some("b"));
    assert_eq!(read.age, 0);
    let error = Employee::from_entity(row().with("Tags", 1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("property 'Tags'"), "{error}");
    let error = Employee::from_entity(row()).unwrap_err().to_string();
    assert!(
        error.contains("'Skills'") && error.contains("`Option`, give it a `default`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_projection_selects_and_an_update_rewrites_former_names() {
    let rows = PlainTable::<Entity>::new(MemoryStore::new(), "Employees").unwrap();
    rows.create_if_missing().await.unwrap();
    let old = row().with("LastName", "Kwok").with("Tags", "[]");
    rows.store()
        .write(rows.name(), crate::store::Operation::Insert(old))
        .await
        .unwrap();
    // The memory store does not encrypt, so the test reads a projection without the encrypted property.
    let projected = rows.query().project::<Surname>();
    assert_eq!(
        projected.all().await.unwrap(),
        [Surname {
            surname: Some("Kwok".into())
        }]
    );
}

#[test]
fn a_prefix_separates_two_groups() {
    let address = |city: &str| Address {
        city: city.into(),
        zip: "0".into(),
        place: Place { latitude: 59.5 },
    };
    let rest = [("Shoe", 43)].into_iter().collect();
    let customer = Customer {
        id: 1,
        home: address("Oslo"),
        work: address("Bergen"),
        rest,
    };
    let entity = customer.to_entity().unwrap();
    let names: Vec<_> = entity
        .properties()
        .iter()
        .map(|p| p.name().to_owned())
        .collect();
    let own = [
        "HomeCity",
        "HomeZip",
        "HomeGeoLatitude",
        "WorkCity",
        "WorkZip",
        "WorkGeoLatitude",
    ];
    assert_eq!(names[..6], own);
    assert_eq!(
        own,
        *Customer::SCHEMA
            .properties
            .iter()
            .map(|p| p.name)
            .collect::<Vec<_>>()
    );
    assert_eq!(Customer::from_entity(entity.clone()).unwrap(), customer);

    let filter = Customer::WORK
        .field(Address::CITY)
        .eq("Oslo")
        .into_filter()
        .unwrap();
    assert_eq!(filter.to_string(), "WorkCity eq 'Oslo'");
    let nested = Customer::HOME
        .field(Address::PLACE.field(Place::LATITUDE))
        .exact_width()
        .gt(1.5);
    assert_eq!(
        nested.into_filter().unwrap().to_string(),
        "HomeGeoLatitude gt 1.5"
    );

    let mut former = entity;
    former.properties_mut().remove("WorkCity");
    former.properties_mut().remove("HomeGeoLatitude");
    let error = Customer::from_entity(former.clone())
        .unwrap_err()
        .to_string();
    assert!(error.contains("'HomeGeoLatitude'"), "{error}");
    let former = former.with("WorkTown", "Bergen").with("HomeGeoLat", 59.5);
    let read = Customer::from_entity(former.clone()).unwrap();
    assert_eq!(
        read, customer,
        "former names have the prefix too, and are not kept as other properties"
    );
    let mut new = read.to_entity().unwrap();
    Customer::SCHEMA.keep_unknown(&former, &mut new).unwrap();
    assert!(new.get("WorkTown").is_none() && new.get("HomeGeoLat").is_none());

    let patch =
        crate::typed::EntityPatch::to_properties(&Customer::patch().work(address("Rome"))).unwrap();
    assert_eq!(patch.get("WorkCity"), Some(ValueRef::String("Rome")));
    assert_eq!(patch.get("WorkGeoLatitude"), Some(ValueRef::Double(59.5)));
}

/// Rows as clients for Python, Node.js and .NET write them: small numbers as Int32, Doubles without decimals as Int32.
#[test]
fn rows_of_other_clients_are_read_by_widened_fields() {
    #[derive(Debug, PartialEq, TableEntity)]
    #[entity(crate = crate, partition_key = "all", row_key = "{id}")]
    struct Reading {
        id: u32,
        count: i64,
        value: f64,
        seen: u64,
    }
    let json = json!({"PartitionKey": "all", "RowKey": "0000000001", "count": 5, "value": 120, "seen@odata.type": "Edm.Int64",
        "seen": "7"});
    let read = Reading::from_entity(serde_json::from_value(json).unwrap()).unwrap();
    assert_eq!(
        read,
        Reading {
            id: 1,
            count: 5,
            value: 120.0,
            seen: 7
        }
    );
}
