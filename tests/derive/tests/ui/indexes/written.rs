use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Employee")]
#[index]
#[index(row_key = "x_{id}")]
#[index(nothing)]
#[index(payload, row_key = "a_{id}", payload = "full")]
#[index(some, row_key = "b_{id}", payload = fields, shape = rows, unique)]
#[index(scope, row_key = "c_{id}", unique = "store", index = 2)]
#[index(again, row_key = "d_{id}", row_key = "e_{id}")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{}")]
    id: u32,
}

fn main() {}
