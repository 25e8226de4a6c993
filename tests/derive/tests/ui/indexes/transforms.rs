use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
#[index(name, row_key = "name_{name:date}_{id}")]
#[index(number, row_key = "number_{number:lower}_{id}")]
#[index(text, row_key = "text_{name:desc}_{id}")]
#[index(rate, row_key = "rate_{rates[]}_{id}")]
struct Order {
    #[partition_key]
    shop: String,
    #[row_key(format = "order_{}")]
    id: u32,
    name: String,
    number: u32,
    #[entity(json)]
    rates: Vec<f64>,
}

fn main() {}
