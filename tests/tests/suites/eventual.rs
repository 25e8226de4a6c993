//! The suite of eventual transactions: within one store and between two; with queues in tables and in Azure
//! Queue Storage; with blobs in memory, in files and in Azure Blob Storage on Azurite.

use std::sync::Arc;

use conformance::async_trait;
use conformance::eventual::EventualBackend;
use conformance::eventual_tests;
use conformance::queues::Queue;
use object_store::ObjectStore;
use table_core::memory::MemoryStore;
use table_core::store::TableStore;
use table_patterns::queue::TableQueue;
use uuid::Uuid;

use crate::backends::{Disk, connection_string, emulated, emulated_blobs};

type Places = (Arc<dyn TableStore>, Arc<dyn TableStore>, Queue);

async fn in_table(store: &Arc<dyn TableStore>) -> Queue {
    let queue = Uuid::new_v4().to_string();
    Arc::new(
        TableQueue::open(store.clone(), "Work", &queue)
            .await
            .expect("a new queue"),
    )
}

mod memory {
    use super::*;

    struct Memory;

    #[async_trait]
    impl EventualBackend for Memory {
        async fn places(&self) -> Places {
            let current: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
            (
                current.clone(),
                Arc::new(MemoryStore::new()),
                in_table(&current).await,
            )
        }
    }

    eventual_tests!(Memory);
}

mod memory_to_embedded {
    use super::*;

    struct ToDisk(Disk);

    #[async_trait]
    impl EventualBackend for ToDisk {
        async fn places(&self) -> Places {
            let current: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
            (
                current.clone(),
                self.0.store("archive").await,
                in_table(&current).await,
            )
        }

        async fn blobs(&self) -> Arc<dyn ObjectStore> {
            self.0.blobs()
        }
    }

    eventual_tests!(ToDisk(Disk::new()));
}

mod embedded_to_azurite {
    use super::*;

    struct ToCloud(Disk);

    #[async_trait]
    impl EventualBackend for ToCloud {
        async fn places(&self) -> Places {
            let current = self.0.store("current").await;
            (
                current.clone(),
                Arc::new(emulated().await),
                in_table(&current).await,
            )
        }

        async fn blobs(&self) -> Arc<dyn ObjectStore> {
            emulated_blobs().await
        }
    }

    eventual_tests!(ToCloud(Disk::new()));
}

mod azurite {
    use table_azure::queue::AzureWorkQueue;

    use super::*;

    struct Cloud;

    #[async_trait]
    impl EventualBackend for Cloud {
        async fn places(&self) -> Places {
            let name = Uuid::new_v4().to_string();
            let queue =
                AzureWorkQueue::from_connection_string(&connection_string().await, &name, None);
            let queue = queue.expect("the emulator's connection string");
            queue.create_if_missing().await.expect("a new queue");
            let store = Arc::new(emulated().await);
            (store.clone(), store, Arc::new(queue))
        }

        async fn blobs(&self) -> Arc<dyn ObjectStore> {
            emulated_blobs().await
        }
    }

    eventual_tests!(Cloud);
}
