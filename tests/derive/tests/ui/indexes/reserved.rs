use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Job", rename_all = "PascalCase")]
#[index(state, row_key = "state_{state}_{id}")]
struct Job {
    #[partition_key]
    queue: String,
    #[row_key(format = "job_{}")]
    id: u32,
    state: String,
    index_name: String,
    owner_row: String,
    #[entity(rename = "OwnerPending")]
    pending: bool,
    owner: String,
}

// Without an index nothing is taken.
#[derive(TableEntity)]
#[entity(type = "Free", rename_all = "PascalCase")]
struct Free {
    #[partition_key]
    queue: String,
    #[row_key(format = "free_{}")]
    id: u32,
    index_name: String,
}

fn main() {}
