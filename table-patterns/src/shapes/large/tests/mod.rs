mod crashes;
mod indexed;
mod queries;
mod rewrite;
mod types;
mod values;

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::adapter::{FaultInjector, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{ETag, IfMatch};
use table_core::store::{Result, TableStore};
use table_core::typed::TableEntity;

use super::collect::collect_older;
use super::{CollectMode, LargeOptions};
use crate::tests::faulty_blobs::FaultyBlobs;
use crate::{Database, Table};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Report", rename_all = "PascalCase")]
struct Report {
    #[partition_key]
    department: String,
    #[row_key]
    number: u32,
    title: String,
    #[large(over = 10)]
    text: String,
    #[large(over = 10)]
    picture: Option<Vec<u8>>,
    #[etag]
    etag: Option<ETag>,
}

fn report(text: &str, picture: Option<&[u8]>) -> Report {
    let (department, title) = ("Sales & Co".to_owned(), "T".to_owned());
    Report {
        department,
        number: 1,
        title,
        text: text.to_owned(),
        picture: picture.map(<[u8]>::to_vec),
        etag: None,
    }
}

const LONG: &str = "a text that does not stay in its row";
const PICTURE: &[u8] = &[255; 100];

fn database(store: Arc<dyn TableStore>, blobs: Arc<dyn ObjectStore>) -> Database {
    Database::new(store).with_blobs(blobs)
}

/// The stores of all processes, and one process with injected faults.
struct Rig {
    store: Arc<MemoryStore>,
    inner: Arc<InMemory>,
    meter: RequestMeter,
    faults: FaultInjector,
    blobs: Arc<FaultyBlobs>,
    table: Table<Report>,
}

impl Rig {
    /// A table whose manifest has the type, as after the first write.
    async fn new() -> Result<Self> {
        let this = Self::on(Arc::new(MemoryStore::new()), Arc::new(InMemory::new())).await?;
        let first = report("x", None);
        this.table.insert(&first).await?;
        this.table.delete(first.entity_key()?, IfMatch::Any).await?;
        this.meter.reset();
        assert_eq!(this.blobs.requests(), 0);
        Ok(this)
    }

    async fn on(store: Arc<MemoryStore>, inner: Arc<InMemory>) -> Result<Self> {
        Self::with(store, inner, LargeOptions::default()).await
    }

    async fn with(
        store: Arc<MemoryStore>,
        inner: Arc<InMemory>,
        options: LargeOptions,
    ) -> Result<Self> {
        let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));
        let blobs = Arc::new(FaultyBlobs::apart(inner.clone(), faults.clone()));
        let faulty = Faulty::new(Arc::clone(&store) as Arc<dyn TableStore>, faults.clone());
        let metered: Arc<dyn TableStore> = Arc::new(Metered::new(faulty, meter.clone()));
        let shared = Arc::clone(&blobs) as Arc<dyn ObjectStore>;
        let db = database(metered, shared);
        let table = db.with_large(options).table("Reports")?;
        table.declare().await?;
        meter.reset();
        Ok(Self {
            store,
            inner,
            meter,
            faults,
            blobs,
            table,
        })
    }

    /// Another process on the same stores.
    async fn again(&self) -> Result<Self> {
        Self::on(Arc::clone(&self.store), Arc::clone(&self.inner)).await
    }

    async fn blob_count(&self) -> usize {
        self.inner
            .list(None)
            .try_collect::<Vec<_>>()
            .await
            .unwrap()
            .len()
    }

    /// Removes orphans as if all blobs were old, then asserts that every row has its blobs and no blob is
    /// without a row.
    async fn assert_clean(&self, case: &str) -> Result<()> {
        collect_older(&self.table, Duration::ZERO, CollectMode::Remove).await?;
        let found = self.table.scrub_blobs().await?;
        assert_eq!(
            found.missing,
            [],
            "{case}: a row refers to a blob that is gone"
        );
        assert_eq!(
            self.blob_count().await as u64,
            found.references,
            "{case}: blobs are left over"
        );
        Ok(())
    }
}
