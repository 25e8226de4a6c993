use table_core::typed::TableEntity;

#[derive(TableEntity)]
struct Employee {
    #[partition_key]
    department: f32,
    #[row_key]
    id: u32,
    skills: Vec<u32>,
    address: std::net::IpAddr,
    released: Option<Version>,
}

struct Version(u32);

fn main() {}
