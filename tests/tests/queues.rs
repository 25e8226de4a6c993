//! The suite of work queues: in a table in memory and on disk, and in Azure Queue Storage on Azurite.

use std::sync::Arc;

use conformance::queues::{Queue, QueueBackend};
use conformance::{async_trait, queue_tests};
use table_core::store::TableStore;
use table_patterns::queue::TableQueue;

async fn in_table(store: Arc<dyn TableStore>) -> Queue {
    Arc::new(TableQueue::open(store, "Work", "jobs").await.expect("a new queue"))
}

mod memory {
    use table_core::memory::MemoryStore;

    use super::*;

    struct Memory;

    #[async_trait]
    impl QueueBackend for Memory {
        async fn queue(&self) -> Queue {
            in_table(Arc::new(MemoryStore::new())).await
        }
    }

    queue_tests!(Memory);
}

mod embedded {
    use table_embedded::EmbeddedStore;
    use tempfile::TempDir;

    use super::*;

    /// A store in a directory of its own, which goes with it.
    struct Embedded(TempDir);

    impl Embedded {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }
    }

    #[async_trait]
    impl QueueBackend for Embedded {
        async fn queue(&self) -> Queue {
            let store = EmbeddedStore::builder(self.0.path().join("store")).open().await;
            in_table(Arc::new(store.expect("a new store"))).await
        }
    }

    queue_tests!(Embedded::new());
}

mod azurite {
    use conformance::azurite::Azurite;
    use table_azure::queue::AzureWorkQueue;
    use table_core::queue::WorkQueue;
    use uuid::Uuid;

    use super::*;

    struct Emulated;

    async fn connection_string() -> String {
        let emulator = tokio::task::spawn_blocking(Azurite::shared).await.expect("the emulator runs");
        emulator.connection_string()
    }

    #[async_trait]
    impl QueueBackend for Emulated {
        async fn queue(&self) -> Queue {
            let name = Uuid::new_v4().to_string();
            let queue = AzureWorkQueue::from_connection_string(&connection_string().await, &name, None);
            let queue = queue.expect("the emulator's connection string");
            queue.create_if_missing().await.expect("a new queue");
            queue.create_if_missing().await.expect("the queue is there");
            Arc::new(queue)
        }
    }

    queue_tests!(Emulated);

    #[tokio::test]
    async fn a_missing_queue_and_a_wrong_key_are_errors() {
        let text = connection_string().await;
        let missing = AzureWorkQueue::from_connection_string(&text, "missing", None).unwrap();
        let error = missing.peek(1).await.unwrap_err();
        assert_eq!(error.answer().unwrap().code.as_deref(), Some("QueueNotFound"), "{error}");
        let wrong = text.replace("AccountKey=E", "AccountKey=F");
        let wrong = AzureWorkQueue::from_connection_string(&wrong, "missing", None).unwrap();
        let error = wrong.create_if_missing().await.unwrap_err();
        assert_eq!(error.answer().unwrap().status, 403, "{error}");
    }
}
