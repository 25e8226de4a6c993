use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Employee")]
#[index(rate, row_key = "rate_{rate}_{id}")]
#[index(names, row_key = "names_{first}{last}_{id}")]
#[index(padded, row_key = "padded_{first:06}_{id}")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{}")]
    id: u32,
    rate: f32,
    first: String,
    last: Option<String>,
}

#[derive(TableEntity)]
#[entity(type = "Generic")]
#[index(value, row_key = "value_{value}_{id}")]
struct Generic<T: table_core::typed::Property> {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{}")]
    id: u32,
    value: T,
}

fn main() {}
