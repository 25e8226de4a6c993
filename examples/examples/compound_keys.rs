//! An employee and the yearly reviews share a partition and a key prefix; one range query reads them all. Use it for an
//! entity that is read together with its details: the RowKey of a detail starts with the RowKey of the entity.
//!
//! Cost: 1 request per page for all; a deletion 1 to read and 1 per group of up to 100 rows.

use table_patterns::compound::Compound;
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    name: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Review",
    rename_all = "PascalCase",
    partition_key = "{department}",
    row_key = "empid_{id:06}_{year:04}"
)]
struct Review {
    department: String,
    id: u32,
    year: u16,
    rating: i32,
}

#[derive(Debug, PartialEq, EntityResolver)]
enum Row {
    Employee(Employee),
    Review(Review),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
    employees.declare().await?;
    let ken = Compound::<Row>::new(&employees, Employee::key("Sales", 123)?)?;
    let review = |year| Review {
        department: "Sales".to_owned(),
        id: 123,
        year,
        rating: 4,
    };

    // They share a partition, so one group transaction writes all or none.
    let mut group = ken.group();
    group.insert(&Employee {
        department: "Sales".to_owned(),
        id: 123,
        name: "Ken".to_owned(),
    })?;
    for year in 2010..=2013 {
        group.insert(&review(year))?;
    }
    group.commit().await?;

    // One request reads the employee and all reviews, each as its own type.
    let rows = ken.all().await?;
    assert!(matches!(&rows[0], Row::Employee(ken) if ken.name == "Ken"));
    assert_eq!(rows[4], Row::Review(review(2013)));

    // A range reads some of them.
    let (from, to) = (
        Review::key("Sales", 123, 2011)?,
        Review::key("Sales", 123, 2012)?,
    );
    assert_eq!(
        ken.between::<Review>(from, to)?.all().await?,
        [review(2011), review(2012)]
    );

    // Deletes the employee and all reviews in one group: 1 request to read, 1 to delete.
    assert_eq!(ken.delete().await?, 5);
    Ok(())
}
