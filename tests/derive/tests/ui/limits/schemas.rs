use table_core::typed::{EntityResolver, PropertyGroup, TableEntity};

#[derive(TableEntity)]
#[entity(type = "Employee")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    age: u32,
    nickname: Option<String>,
    #[encrypt]
    badge: String,
    #[entity(flatten)]
    address: Address,
}

#[derive(PropertyGroup)]
struct Address {
    #[entity(rename = "age")]
    city: String,
}

#[derive(TableEntity)]
#[entity(projection_of = Employee)]
struct Projection {
    department: String,
    years: u32,
    age: i32,
    nickname: String,
    badge: String,
}

#[derive(TableEntity)]
#[entity(type = "Employes", version = 2, previous = Employee)]
struct Next {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
}

impl From<Employee> for Next {
    fn from(old: Employee) -> Self {
        Self { department: old.department, id: old.id }
    }
}

#[derive(TableEntity)]
struct Untold {
    #[partition_key]
    a: u8,
    #[row_key]
    b: u8,
}

#[derive(EntityResolver)]
enum Row {
    Employee(Employee),
    Same(Employee),
    Untold(Untold),
}

fn main() {}
