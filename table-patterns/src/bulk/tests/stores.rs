use std::sync::Arc;

use futures_util::stream;
use table_core::adapter::CrashPoint;
use table_core::memory::MemoryStore;
use table_core::model::TableName;
use table_core::store::{Operation, Result, TableStore, TableStoreExt as _};

use super::{Rig, reading};
use crate::bulk::{BulkOptions, BulkWriter, copy_store};

const TABLES: [&str; 3] = ["Alpha", "Beta", "Gamma"];

async fn source() -> Result<Arc<dyn TableStore>> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    for name in TABLES {
        let table = TableName::new(name)?;
        store.create_table(&table).await?;
        let rows: Vec<_> = (0..250)
            .map(|n| Ok((table.clone(), Operation::Insert(reading(&format!("p{}", n % 3), n)?))))
            .collect();
        BulkWriter::new(store.clone()).write(stream::iter(rows)).await?.into_result()?;
    }
    Ok(store)
}

#[tokio::test]
async fn a_crash_at_any_request_is_continued_by_the_next_run() -> Result<()> {
    let (from, mut request) = (source().await?, 1);
    loop {
        let to = Rig::new().await?;
        to.faults.crash_at(request, CrashPoint::After);
        let copy = copy_store(from.clone(), to.store.clone()).resumable("job");
        let copy = copy.with_options(BulkOptions::default().with_retry(None));
        let first = copy.run().await;
        let crashed = to.faults.is_crashed();
        to.faults.heal();
        assert_eq!(first.is_err(), crashed, "request {request}");
        match copy.run().await {
            Ok(report) => assert_eq!(report.rows, 750, "request {request}"),
            // The first run has finished, or its crash was at the removal of the last checkpoint. The comparison below tells.
            Err(error) => assert!(error.to_string().contains("has finished"), "request {request}: {error}"),
        }
        assert_eq!(copy.verify().await?, [], "request {request}");
        for name in TABLES {
            let rows = to.store.query_all(&TableName::new(name)?, &table_core::query::Query::new()).await?;
            assert_eq!(rows.len(), 250, "request {request}: no checkpoint is left in {name}");
        }
        if !crashed {
            return Ok(());
        }
        request += 1;
    }
}

#[tokio::test]
async fn a_store_is_not_copied_to_itself() -> Result<()> {
    let store = source().await?;
    let refused = copy_store(store.clone(), store).run().await.unwrap_err();
    assert!(refused.to_string().contains("the same store"), "{refused}");
    Ok(())
}
