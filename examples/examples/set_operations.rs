//! Set operations: one call changes, deletes or inserts many entities, with an outcome per failed entity. A whole store is
//! copied with its manifests.

use std::sync::Arc;

use futures_util::stream;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_patterns::bulk::{BulkTable as _, copy_store};
use table_patterns::index::{IndexOptions, IndexedTable};

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Job", rename_all = "PascalCase")]
#[index(state, row_key = "state_{state}_{id:06}")]
struct Job {
    #[partition_key]
    queue: String,
    #[row_key(format = "job_{:06}")]
    id: u32,
    state: String,
    retries: i32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let jobs = IndexedTable::<Job>::open(store.clone(), "Jobs", IndexOptions::local()).await?;
    let new = |id| Job { queue: "mail".to_owned(), id, state: "failed".to_owned(), retries: (id % 5) as i32 };
    let summary = jobs.bulk().insert_all(stream::iter((0..200).map(new))).await?;
    assert_eq!((summary.written, summary.requests), (200, 4)); // 50 entities with their entries in each group

    // The index entries follow: 1 query, and groups of the entities with their entries.
    let mail = jobs.query().partition(Job::partition("mail")?);
    let retry = |job: &mut Job| {
        job.retries += 1;
        job.state = "new".to_owned();
        Ok(())
    };
    let (summary, cost) = meter.measure(mail.clone().filter(Job::RETRIES.lt(3)).update(retry)).await;
    let summary = summary?;
    assert_eq!((summary.written, summary.failed, cost.total()), (120, 0, 1 + summary.requests));
    assert_eq!(jobs.by(Job::by_state("mail").state("new")).count().await?, 120);

    let deleted = mail.filter(Job::STATE.eq("failed")).delete().await?;
    assert_eq!(deleted.into_result()?, 80); // or the first failure

    let copy = copy_store(store, Arc::new(MemoryStore::new()));
    let report = copy.run().await?;
    assert!(copy.verify().await?.is_empty());
    assert_eq!(report.tables.len(), 1);
    Ok(())
}
