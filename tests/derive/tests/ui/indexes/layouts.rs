use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Form", wide)]
#[index(name, row_key = "name_{name}_{id}")]
struct Wide {
    #[partition_key]
    year: String,
    #[row_key(format = "form_{}")]
    id: u32,
    name: String,
    #[large]
    text: String,
}

#[derive(TableEntity)]
#[entity(type = "Event")]
#[index(name, partition_key = "name_{name}", row_key = "{day}_{id}")]
struct Spread {
    #[partition_key(spread = 16)]
    day: String,
    #[row_key]
    id: u32,
    name: String,
    #[large]
    text: String,
}

#[derive(TableEntity)]
#[entity(type = "Both", wide, spread = 16, feed)]
struct Both {
    #[partition_key]
    day: String,
    #[row_key]
    id: u32,
}

#[derive(TableEntity)]
#[entity(type = "Document", rename_all = "PascalCase")]
#[index(whole, row_key = "whole_{title}_{id}", payload = full)]
#[index(named, row_key = "named_{title}_{id}", payload = fields(title, text))]
#[index(text, row_key = "text_{text}_{id}")]
#[index(long, row_key = "long_{title}_{id}", where = "Text ge 'a'")]
#[index(title, row_key = "title_{title}_{id}", payload = fields(title))]
struct Document {
    #[partition_key]
    folder: String,
    #[row_key(format = "doc_{}")]
    id: u32,
    title: String,
    #[large]
    text: String,
}

fn main() {}
