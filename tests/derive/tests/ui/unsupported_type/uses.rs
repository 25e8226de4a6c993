use table_core::typed::{RowPrefix, TableEntity};

#[derive(TableEntity)]
#[entity(type = "Employee", partition_key = "{department}", row_key = "{department}_{id}_{code}")]
struct Employee {
    department: String,
    id: u32,
    code: Code,
    age: u32,
    name: String,
    #[encrypt]
    national_id: String,
    #[entity(json)]
    skills: Vec<String>,
    #[entity(json)]
    note: String,
}

#[derive(table_core::model::KeyPart)]
struct Code(u32);

fn main() {
    // An encrypted field has no comparisons.
    let _ = Employee::NATIONAL_ID.eq("7");
    // Nor has JSON.
    let _ = Employee::SKILLS.eq(vec![]);
    let _ = Employee::NOTE.starts_with("a");
    // Nor a field of a key.
    let _ = Employee::DEPARTMENT.eq("Sales");
    // Text has prefixes, numbers do not.
    let _ = Employee::AGE.starts_with("4");
    // A value of another type.
    let _ = Employee::AGE.gt("30");
    let _ = Employee::key("Sales", "7", Code(1));
    // Parts in their order.
    let _ = Employee::row_prefix().id(7);
    // The prefix of a part that is no text.
    let _: RowPrefix<Employee> = Employee::row_prefix().department("S").id(7).code_starting("1").into();
}
