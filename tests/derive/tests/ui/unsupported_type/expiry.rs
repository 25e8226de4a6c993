use table_core::typed::{PlainTable, TableEntity};

#[derive(TableEntity)]
struct Session {
    #[partition_key]
    user: String,
    #[row_key]
    id: u32,
    #[expires]
    until: i64,
}

#[derive(TableEntity)]
struct Note {
    #[partition_key]
    user: String,
    #[row_key]
    id: u32,
}

async fn deletes(notes: &PlainTable<Note>) {
    let _ = notes.soft_delete(Note::key("ann", 1u32).unwrap()).await;
}

fn main() {}
