use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
#[index(upper, row_key = "upper_{name:upper}_{id}")]
#[index(none, row_key = "none_{name:prefix(0)}_{id}")]
#[index(order, row_key = "order_{name:desc:lower}_{id}")]
#[index(twice, row_key = "twice_{number:06:07}_{id}")]
#[index(list, row_key = "list_{tags}_{id}")]
#[index(single, row_key = "single_{name[]}_{id}")]
#[index(pairs, row_key = "pairs_{tags[]}_{others[]}_{id}")]
#[index(lost, row_key = "lost_{name:lower}_{id:desc}")]
#[index(told, row_key = "told_{name:lower}")]
#[index(large, row_key = "large_{text}_{id}")]
#[index(open, row_key = "open_{id}", where = "Status = 'open'")]
#[index(secret, row_key = "secret_{id}", where = "Pin eq '1'")]
#[index(late, row_key = "late_{id}", where = "Timestamp gt 1")]
#[index(field, row_key = "field_{id}", where = "name eq 'x'")]
struct Order {
    #[partition_key]
    shop: String,
    #[row_key(format = "order_{}")]
    id: u32,
    name: String,
    number: u32,
    #[entity(json)]
    tags: Vec<String>,
    #[entity(json)]
    others: Vec<String>,
    #[large]
    text: String,
    #[encrypt]
    pin: String,
}

#[derive(TableEntity)]
#[entity(row_key = "{id:lower}")]
struct Own {
    #[partition_key]
    shop: String,
    id: String,
}

fn main() {}
