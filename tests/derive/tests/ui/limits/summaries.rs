use table_core::typed::TableEntity;

/// Sums are of integers, minima and maxima of numbers and times.
#[derive(TableEntity)]
#[entity(type = "Employee")]
#[index(sums, row_key = "sums_{office}", shape = summary(sum(height, name, hired)))]
#[index(extremes, row_key = "extremes_{office}", shape = summary(min(office, photo), max(active, tags)))]
#[index(right, row_key = "right_{office}", shape = summary(sum(age, salary), min(height), max(hired)))]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    office: String,
    name: String,
    age: u8,
    salary: Option<i64>,
    height: f64,
    hired: table_core::model::Ticks,
    active: bool,
    photo: Vec<u8>,
    #[entity(json)]
    tags: Vec<String>,
}

fn main() {}
