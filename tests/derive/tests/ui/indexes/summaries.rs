use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Attributes")]
#[index(office, row_key = "office_{office}", shape = summary(sum(salary), mean(salary)))]
#[index(empty, row_key = "empty_{office}", shape = summary(sum()))]
#[index(unknown, row_key = "unknown_{office}", shape = summary(sum(wages)))]
#[index(elsewhere, partition_key = "office_{office}", row_key = "all", shape = summary)]
#[index(sole, row_key = "sole_{office}", shape = summary, unique = "partition", payload = full)]
#[index(secret, row_key = "secret_{office}", shape = summary(max(pin), min(id), sum(bonus)))]
struct Attributes {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    office: String,
    salary: i64,
    #[encrypt]
    pin: i32,
    #[entity(default)]
    bonus: i32,
}

fn main() {}
