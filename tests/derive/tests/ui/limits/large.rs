use table_core::typed::TableEntity;

#[derive(TableEntity)]
struct Report {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[large]
    count: i32,
    #[large(over = 40000)]
    text: String,
    #[large(over = 65536)]
    bytes: Option<Vec<u8>>,
}

#[derive(TableEntity)]
#[entity(projection_of = Report)]
struct Text {
    bytes: Option<Vec<u8>>,
}

fn main() {
    let _ = ReportPatch::default().text("b");
}
