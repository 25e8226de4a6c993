mod migrations;
mod reads;
mod watches;

use std::sync::Arc;

use table_core::adapter::{FaultInjector, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{ETag, Entity, TableName};
use table_core::query::Query;
use table_core::store::{Result, TableStore, TableStoreExt as _};
use table_core::typed::TableEntity;

use super::SpreadTable;

/// The same rows with other numbers of buckets.
macro_rules! event {
    ($name:ident, $spread:literal $(, $salt:literal)?) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        #[entity(type = "Event", rename_all = "PascalCase", partition_key = "day_{day}", spread = $spread $(, salt = $salt)?)]
        struct $name {
            day: String,
            #[row_key(format = "{:06}")]
            number: u32,
            text: String,
            #[etag]
            etag: Option<ETag>,
        }

        impl $name {
            fn new(number: u32, text: &str) -> Self {
                Self { day: "1".to_owned(), number, text: text.to_owned(), etag: None }
            }
        }
    };
}

event!(Event, 4);
event!(Wider, 10);
event!(Salted, 4, "events of a day");

struct Rig {
    store: Arc<MemoryStore>,
    meter: RequestMeter,
    faults: FaultInjector,
    metered: Arc<dyn TableStore>,
}

impl Rig {
    async fn new() -> Result<Self> {
        let this = Self::on(Arc::new(MemoryStore::new()));
        this.open::<Event>()?.create_if_missing().await?;
        this.meter.reset();
        Ok(this)
    }

    fn on(store: Arc<MemoryStore>) -> Self {
        let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));
        let faulty = Faulty::new(Arc::clone(&store) as Arc<dyn TableStore>, faults.clone());
        let metered = Arc::new(Metered::new(faulty, meter.clone()));
        Self {
            store,
            meter,
            faults,
            metered,
        }
    }

    /// The rows of the table without those of its manifest.
    async fn entities(&self) -> Result<Vec<Entity>> {
        let mut rows = self
            .store
            .query_all(&TableName::new("Events")?, &Query::new())
            .await?;
        rows.retain(|row| !row.key().is_system());
        Ok(rows)
    }

    fn open<T: TableEntity>(&self) -> Result<SpreadTable<T>> {
        SpreadTable::new(Arc::clone(&self.metered), "Events")
    }
}
