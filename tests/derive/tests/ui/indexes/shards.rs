use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Order")]
#[index(width, partition_key = "{id:06#16}", row_key = "{shop}_{id}")]
#[index(twice, partition_key = "{id:06:07}", row_key = "{shop}_{id}")]
#[index(order, partition_key = "{id:desc#16}", row_key = "{shop}_{id}")]
struct Order {
    #[partition_key]
    shop: String,
    #[row_key]
    id: u32,
}

fn main() {}
