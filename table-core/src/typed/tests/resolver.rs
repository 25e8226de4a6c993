use crate::model::Entity;
use crate::query::{Filter, Select};
use crate::typed::{EntityResolver, FromEntity, TableEntity};

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Department", row_key = "Department")]
struct Department {
    #[partition_key]
    name: String,
    headcount: u32,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, discriminator(row_prefix), partition_key = "{department}", row_key = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
}

#[derive(Debug, PartialEq, EntityResolver)]
#[entity(crate = crate)]
enum SalesRow {
    Department(Department),
    Employee(Employee),
}

#[derive(Debug, PartialEq, EntityResolver)]
#[entity(crate = crate)]
enum AnyRow {
    Employee(Employee),
    #[resolver(other)]
    Other(Entity),
}

fn sales() -> Entity {
    Department {
        name: "Sales".into(),
        headcount: 7,
    }
    .to_entity()
    .unwrap()
}

fn ken() -> Entity {
    Employee {
        department: "Sales".into(),
        id: 1,
    }
    .to_entity()
    .unwrap()
}

#[test]
fn each_row_becomes_its_variant() {
    let department = SalesRow::Department(Department {
        name: "Sales".into(),
        headcount: 7,
    });
    assert_eq!(SalesRow::from_entity(sales()).unwrap(), department);
    let employee = Employee {
        department: "Sales".into(),
        id: 1,
    };
    assert_eq!(
        SalesRow::from_entity(ken()).unwrap(),
        SalesRow::Employee(employee)
    );
}

#[test]
fn another_row_is_an_error_or_the_other_variant() {
    let entity = Entity::new("Sales", "x")
        .unwrap()
        .with("EntityType", "Task");
    let error = SalesRow::from_entity(entity.clone())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("expected one of Department, Employee, found \"Task\""),
        "{error}"
    );
    assert_eq!(
        AnyRow::from_entity(entity.clone()).unwrap(),
        AnyRow::Other(entity)
    );
}

#[test]
fn a_resolver_asks_for_all_its_types() {
    let prefix = Filter::starts_with("RowKey", "empid_");
    let filter = Filter::eq("EntityType", "Department").or(prefix);
    assert_eq!(SalesRow::type_filter(), Some(filter));
    assert_eq!(AnyRow::type_filter(), None);
    assert_eq!(SalesRow::select(), None::<Select>);
    assert_eq!(AnyRow::select(), None);
}
