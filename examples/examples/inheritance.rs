//! Inheritance: the concrete types of a hierarchy in one table, read as an enum with a shared base.
//!
//! Cost: a write 1 request; a query 1 per page for all types together.

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;

/// The base. Its properties are part of the entity of every concrete type.
#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Person {
    first_name: String,
    last_name: String,
    email: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Customer",
    partition_key = "{region}",
    row_key = "{number:06}",
    rename_all = "PascalCase"
)]
struct Customer {
    region: String,
    number: u32,
    #[entity(flatten)]
    person: Person,
    credit_limit: i64,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Employee",
    partition_key = "{region}",
    row_key = "{number:06}",
    rename_all = "PascalCase"
)]
struct Employee {
    region: String,
    number: u32,
    #[entity(flatten)]
    person: Person,
    department: String,
}

/// The counterpart of an abstract class: one of its concrete types.
#[derive(Debug, PartialEq, EntityResolver)]
enum AnyPerson {
    Customer(Customer),
    Employee(Employee),
}

impl AnyPerson {
    fn person(&self) -> &Person {
        match self {
            Self::Customer(customer) => &customer.person,
            Self::Employee(employee) => &employee.person,
        }
    }
}

fn person(first: &str, last: &str) -> Person {
    let email = format!("{}@contoso.com", first.to_lowercase());
    Person {
        first_name: first.to_owned(),
        last_name: last.to_owned(),
        email,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let db = Database::new(Metered::new(MemoryStore::new(), meter.clone()));
    let customers = db.table::<Customer>("People")?;
    let employees = db.table::<Employee>("People")?;
    customers.declare().await?;
    let people = db.view::<AnyPerson>("People")?;

    let region = || "west".to_owned();
    let ann = Customer {
        region: region(),
        number: 7,
        person: person("Ann", "Lee"),
        credit_limit: 5_000,
    };
    let ken = Employee {
        region: region(),
        number: 8,
        person: person("Ken", "Kwok"),
        department: "Sales".to_owned(),
    };
    customers.insert(&ann).await?;
    employees.insert(&ken).await?;

    // One request reads the people of a region, each as its own type, with access to the base.
    let west = PartitionKey::new("west")?;
    let (all, cost) = meter
        .measure(people.query().partition(west.clone()).all())
        .await;
    let all = all?;
    assert_eq!(cost.total(), 1);
    assert_eq!(
        all,
        [
            AnyPerson::Customer(ann.clone()),
            AnyPerson::Employee(ken.clone())
        ]
    );
    let names: Vec<_> = all
        .iter()
        .map(|any| any.person().first_name.as_str())
        .collect();
    assert_eq!(names, ["Ann", "Ken"]);

    // A typed condition belongs to one type. A query of the enum filters by the property name, which the constant of the field has.
    let kwoks = Filter::eq(Customer::PERSON.field(Person::LAST_NAME).name(), "Kwok");
    assert_eq!(
        people
            .query()
            .partition(west.clone())
            .raw_filter(kwoks)
            .count()
            .await?,
        1
    );

    // A handle of one concrete type omits the others and refuses to read them.
    assert_eq!(customers.query().partition(west).all().await?, [ann]);
    let error = customers
        .get(ken.entity_key()?.key())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("Employee"), "{error}");
    assert_eq!(
        people.get(ken.entity_key()?.key()).await?,
        Some(AnyPerson::Employee(ken))
    );
    Ok(())
}
