use table_core::model::Entity;
use table_core::typed::{EntityResolver, PropertyGroup, TableEntity};

#[derive(TableEntity)]
#[entity(table = "Employees", rename_all = "TitleCase", partition_key = "{departement}", discriminator(prefix))]
struct Employee {
    department: String,
    #[row_key(width = 6)]
    id: u32,
    #[entity(renamed = "Name")]
    name: String,
}

#[derive(PropertyGroup)]
#[entity(type = "Address")]
struct Address {
    city: String,
}

#[derive(EntityResolver)]
enum Row {
    Employee(Employee),
    #[resolver(rest)]
    Rest(Entity),
}

fn main() {}
