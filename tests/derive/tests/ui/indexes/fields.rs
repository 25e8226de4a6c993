use table_core::model::{ETag, Properties};
use table_core::typed::{PropertyGroup, TableEntity};

#[derive(TableEntity)]
#[entity(type = "Employee")]
#[index(badge, row_key = "badge_{badge}_{id}")]
#[index(address, row_key = "address_{address}_{id}")]
#[index(version, row_key = "version_{etag}_{id}")]
#[index(cached, row_key = "cached_{cached}_{id}")]
#[index(other, row_key = "other_{rest}_{id}")]
#[index(missing, row_key = "missing_{surname}_{id}")]
#[index(broken, row_key = "broken_{id", partition_key = "a/{id}")]
#[index(held, row_key = "held_{id}", payload = fields(name, name, department, surname, address))]
#[index(empty, row_key = "empty_{id}", payload = fields())]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{}")]
    id: u32,
    name: String,
    #[encrypt]
    badge: String,
    #[entity(flatten)]
    address: Address,
    #[entity(skip)]
    cached: u32,
    #[entity(rest)]
    rest: Properties,
    #[etag]
    etag: Option<ETag>,
}

#[derive(PropertyGroup)]
struct Address {
    city: String,
}

#[derive(TableEntity)]
#[entity(projection_of = Employee)]
#[index(name, row_key = "name_{name}")]
struct Name {
    name: String,
}

fn main() {}
