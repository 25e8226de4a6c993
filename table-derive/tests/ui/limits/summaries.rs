use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Types")]
#[index(office, row_key = "office_{office}", shape = summary(sum(rating), min(name), max(price)))]
struct Types {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    office: String,
    name: String,
    rating: f64,
    #[entity(text)]
    price: std::num::NonZeroU8,
}

fn main() {}
