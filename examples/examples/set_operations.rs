//! Changes or deletes all entities of a query in one call (a *set operation*), and inserts many entities in bulk, with their index
//! entries. A group is atomic, the set is not: run it again after an interruption.
//!
//! Cost: 1 request per page, and 1 per group of up to 100 rows of a partition.

use futures_util::stream;
use table_core::adapter::{Metered, RequestMeter};
use table_patterns::bulk::BulkTable as _;
use table_patterns::prelude::*; // adds `bulk()` to every typed table

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
    let db = Database::new(Metered::new(MemoryStore::new(), meter.clone()));
    let jobs = db.table::<Job>("Jobs")?;
    jobs.declare().await?;
    let failed_job = |id| Job {
        queue: "mail".to_owned(),
        id,
        state: "failed".to_owned(),
        retries: (id % 5) as i32,
    };
    let summary = jobs
        .bulk()
        .insert_all(stream::iter((0..200).map(failed_job)))
        .await?;
    assert_eq!(summary.written, 200);
    assert_eq!(
        summary.requests, 4,
        "a group has 50 entities and their 50 entries"
    );

    // The index entries change with their entities: 1 request for the query, then 1 per group.
    let mail = jobs.query().partition(Job::partition("mail")?);
    let retry = |job: &mut Job| {
        job.retries += 1;
        job.state = "new".to_owned();
        Ok(())
    };
    let (summary, cost) = meter
        .measure(mail.clone().filter(Job::RETRIES.lt(3)).update(retry))
        .await;
    let summary = summary?;
    assert_eq!(summary.written, 120);
    assert_eq!(summary.failed, 0);
    assert_eq!(cost.total(), 1 + summary.requests);
    assert_eq!(
        jobs.by(Job::by_state("mail").state("new")).count().await?,
        120
    );

    // `into_result`: the number of deleted entities, or the error of the first that failed.
    let deleted = mail.filter(Job::STATE.eq("failed")).delete().await?;
    assert_eq!(deleted.into_result()?, 80);
    Ok(())
}
