//! The suite of work queues, on a table in memory and on Azurite.

mod table {
    use std::sync::Arc;

    use conformance::queues::Queue;
    use table_core::memory::MemoryStore;
    use table_patterns::queue::TableQueue;

    async fn queue() -> Queue {
        Arc::new(TableQueue::open(Arc::new(MemoryStore::new()), "Work", "jobs").await.unwrap())
    }

    conformance::queue_tests!(queue);
}

mod azurite {
    use std::sync::Arc;

    use conformance::azurite::Azurite;
    use conformance::queues::Queue;
    use table_azure::queue::AzureWorkQueue;
    use uuid::Uuid;

    async fn queue() -> Queue {
        let emulator = tokio::task::spawn_blocking(Azurite::shared).await.unwrap();
        let name = Uuid::new_v4().to_string();
        let queue =
            AzureWorkQueue::from_connection_string(&emulator.connection_string(), &name, None).unwrap();
        queue.create_if_missing().await.unwrap();
        queue.create_if_missing().await.unwrap();
        Arc::new(queue)
    }

    conformance::queue_tests!(queue);

    #[tokio::test]
    async fn a_missing_queue_and_a_wrong_key_are_errors() {
        let emulator = tokio::task::spawn_blocking(Azurite::shared).await.unwrap();
        let text = emulator.connection_string();
        let missing = AzureWorkQueue::from_connection_string(&text, "missing", None).unwrap();
        let error = table_core::queue::WorkQueue::peek(&missing, 1).await.unwrap_err();
        assert_eq!(error.answer().unwrap().code.as_deref(), Some("QueueNotFound"), "{error}");
        let wrong = text.replace("AccountKey=E", "AccountKey=F");
        let wrong = AzureWorkQueue::from_connection_string(&wrong, "missing", None).unwrap();
        let error = wrong.create_if_missing().await.unwrap_err();
        assert_eq!(error.answer().unwrap().status, 403, "{error}");
    }
}
