//! Related entities: by convention, by a stored link, and joined in the client through a cache.
//!
//! Cost: following a link 1 request; a convention 1 per page; a join 1 per distinct key that is not in the cache.

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;
use table_patterns::relationship::{JoinCache, JoinOptions, Link, Relation};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(partition_key = "departments", row_key = "{name}")]
struct Department {
    name: String,
    manager: Link<Employee>,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let db = Database::new(Metered::new(MemoryStore::new(), meter.clone()));
    let departments = db.table::<Department>("Departments")?;
    let employees = db.table::<Employee>("Employees")?;
    departments.declare().await?;
    employees.declare().await?;

    for (id, name) in [(1, "Ken"), (2, "Kim"), (3, "Kay")] {
        let employee = Employee {
            department: "Sales".to_owned(),
            id,
            name: name.to_owned(),
        };
        employees.insert(&employee).await?;
    }
    let manager = Link::from(Employee::key("Sales", 2)?);
    departments
        .insert(&Department {
            name: "Sales".to_owned(),
            manager,
        })
        .await?;

    // One-to-one by a stored key: 1 request to read it, 1 to follow it.
    let sales = departments.get_existing(Department::key("Sales")?).await?;
    assert_eq!(
        sales
            .manager
            .follow(&employees)
            .await?
            .map(|kim| kim.name)
            .as_deref(),
        Some("Kim")
    );

    // One-to-many: the relation says in which partition the employees of a department are. 1 request per page.
    let staff_of = Relation::many(employees.clone(), |department: &Department| {
        Ok((Employee::partition(&department.name)?, None))
    });
    let staff = staff_of.of(&sales)?.all().await?;
    assert_eq!(staff.len(), 3);

    // Many-to-one, joined in the client: 1 request per distinct department; the next joins use the cache until an entry expires.
    let cache = JoinCache::new(departments, JoinOptions::default());
    let join = cache.join(staff, |employee| Department::key(&employee.department));
    let (joined, cost) = meter.measure(join).await;
    let joined = joined?;
    assert_eq!(joined.len(), 3);
    assert_eq!(cost.total(), 1);
    assert!(joined.iter().all(|(_, department)| department.is_some()));
    Ok(())
}
