use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Employee")]
#[index(none, partition_key = "a_{email#0}", row_key = "{email}_{department}_{id:06}")]
#[index(many, partition_key = "b_{email#1001}", row_key = "{email}_{department}_{id:06}")]
#[index(row, partition_key = "c", row_key = "{email#16}_{email}_{department}_{id:06}")]
#[index(number, partition_key = "d_{age#16}", row_key = "{age:03}_{department}_{id:06}")]
#[index(apart, partition_key = "e_{email#16}", row_key = "{department}_{email}_{id:06}")]
#[index(untold, partition_key = "f_{email#16}", row_key = "all", shape = list)]
#[index(twice, partition_key = "g_{email#16}_{department#4}", row_key = "{email}_{department}_{id:06}")]
#[index(small, row_key = "h_{email}", shape = list(bytes = 10))]
#[index(nowhere, row_key = "i_{email}", shape = list(overflow = files))]
#[index(other, row_key = "j_{email}", shape = list(words = 7))]
#[index(row_of, row_key = "k_{email}_{id:06}", shape = row(bytes = 256))]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    email: String,
    age: u32,
}

#[derive(TableEntity)]
#[entity(partition_key = "plane_{tail#16}", row_key = "{tail}")]
struct Plane {
    tail: String,
}

fn main() {}
