//! Filters from typed fields, names or text; their cost; and cheaper alternatives.
//!
//! Cost: `access_path` and `explain` send no request. A query costs 1 request per page, and a page of a scan may be empty.

use table_core::query::Plan;
use table_core::store::ServiceProfile;
use table_patterns::prelude::*;

#[derive(Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    last_name: String,
    age: i32,
    salary: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
    employees.declare().await?;
    for (department, id, last_name, age, salary) in [
        ("Sales", 1, "Jones", 47, 71_000),
        ("Sales", 2, "Kim", 29, 52_000),
        ("Marketing", 3, "Smith", 52, 88_000),
    ] {
        let employee = Employee {
            department: department.to_owned(),
            id,
            last_name: last_name.to_owned(),
            age,
            salary,
        };
        employees.insert(&employee).await?;
    }

    // A typed condition can compare a field only with a value of its type.
    let older = Employee::AGE
        .gt(40)
        .and(Employee::LAST_NAME.starts_with("J"));
    let query = employees
        .query()
        .partition(Employee::partition("Sales")?)
        .filter(older);
    assert_eq!(query.access_path()?, AccessPath::PartitionScan);
    let names: Vec<_> = query
        .all()
        .await?
        .into_iter()
        .map(|employee| employee.last_name)
        .collect();
    assert_eq!(names, ["Jones"]);

    // Without a PartitionKey, the service reads every entity of the table.
    let query = employees.query().filter(Employee::AGE.gt(40));
    assert_eq!(query.access_path()?, AccessPath::TableScan);
    assert_eq!(query.all().await?.len(), 2);

    // Clients in Node.js or Python store small numbers as Int32. An `i64` field reads Int32 and Int64, and its filter has two
    // comparisons, which find both: Salary gt 70000L or Salary gt 70000.
    let paid = Employee::SALARY.gt(70_000);
    assert_eq!(employees.query().filter(paid).count().await?, 2);

    // The service's filter text parses to the same filter and prints back.
    let parsed: Filter = "PartitionKey eq 'Sales' and Age gt 40".parse()?;
    assert_eq!(
        parsed,
        Filter::eq("PartitionKey", "Sales").and(Filter::gt("Age", 40))
    );
    assert_eq!(parsed.to_string(), "PartitionKey eq 'Sales' and Age gt 40");
    let error = "Age gt".parse::<Filter>().unwrap_err().to_string();
    assert!(error.contains("character 6"), "{error}");

    // For an `or` of two RowKeys, the service reads the whole partition. Two point reads cost less: `explain` proposes them, and
    // `use_cheaper_plan` sends them.
    let two_rows: Filter =
        "PartitionKey eq 'Sales' and (RowKey eq '0000000001' or RowKey eq '0000000002')".parse()?;
    let explanation = Query::new()
        .with_filter(two_rows.clone())
        .explain(&ServiceProfile::AZURE_TABLES);
    assert_eq!(explanation.path, AccessPath::PartitionScan);
    assert!(matches!(explanation.plan, Some(Plan::Points(keys)) if keys.len() == 2));
    assert_eq!(
        employees
            .query()
            .raw_filter(two_rows)
            .use_cheaper_plan()
            .all()
            .await?
            .len(),
        2
    );
    Ok(())
}
