//! The suite of work queues: in a table in memory and on disk, and in Azure Queue Storage on Azurite.

use std::sync::Arc;

use conformance::queues::{Queue, QueueBackend};
use conformance::{async_trait, queue_tests};
use table_core::store::TableStore;
use table_patterns::queue::TableQueue;

use crate::backends::{Disk, connection_string};

async fn in_table(store: Arc<dyn TableStore>) -> Queue {
    Arc::new(
        TableQueue::open(store, "Work", "jobs")
            .await
            .expect("a new queue"),
    )
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

mod behind_adapters {
    use table_core::adapter::{MeteredQueue, QueueMeter, RetryPolicy, RetryingQueue};
    use table_core::memory::MemoryStore;

    use super::*;

    struct Behind;

    #[async_trait]
    impl QueueBackend for Behind {
        async fn queue(&self) -> Queue {
            let queue = in_table(Arc::new(MemoryStore::new())).await;
            let metered = MeteredQueue::new(queue, QueueMeter::new());
            Arc::new(RetryingQueue::new(metered, RetryPolicy::default()))
        }
    }

    queue_tests!(Behind);
}

mod embedded {
    use super::*;

    struct Embedded(Disk);

    #[async_trait]
    impl QueueBackend for Embedded {
        async fn queue(&self) -> Queue {
            in_table(self.0.store("store").await).await
        }
    }

    queue_tests!(Embedded(Disk::new()));
}

mod azurite {
    use std::time::Duration;

    use chrono::{TimeDelta, Utc};
    use conformance::azurite::Azurite;
    use table_azure::SharedKey;
    use table_azure::queue::AzureWorkQueue;
    use table_azure::sas::{
        AccountPermissions, AccountResources, AccountSas, AccountServices, SasProtocol,
    };
    use table_core::queue::WorkQueue;
    use uuid::Uuid;

    use super::*;

    struct Emulated;

    #[async_trait]
    impl QueueBackend for Emulated {
        async fn queue(&self) -> Queue {
            let name = Uuid::new_v4().to_string();
            let queue =
                AzureWorkQueue::from_connection_string(&connection_string().await, &name, None);
            let queue = queue.expect("the emulator's connection string");
            queue.create_if_missing().await.expect("a new queue");
            queue.create_if_missing().await.expect("the queue is there");
            Arc::new(queue)
        }
    }

    queue_tests!(Emulated);

    async fn named(name: &str) -> AzureWorkQueue {
        AzureWorkQueue::from_connection_string(&connection_string().await, name, None).unwrap()
    }

    /// The resource of signatures over messages. Azurite checks renewals and deletions of messages against
    /// rights on queues
    /// (<https://github.com/Azure/Azurite/blob/main/src/queue/authentication/OperationAccountSASPermission.ts>).
    /// The documentation names rights on messages
    /// (<https://learn.microsoft.com/rest/api/storageservices/create-account-sas>).
    const MESSAGES: AccountResources = AccountResources::ENTITY;

    /// Opens the same queue with a signature with these rights.
    fn guest(name: &str, rights: AccountPermissions, on: AccountResources) -> AzureWorkQueue {
        let (account, key) = Azurite::shared().account();
        let expires = Utc::now() + TimeDelta::hours(1);
        let sas = AccountSas::new(rights, on, expires)
            .with_services(AccountServices::QUEUE)
            .with_protocol(SasProtocol::HttpsAndHttp)
            .sign(&SharedKey::new(account, key).unwrap());
        let endpoint = Azurite::shared().queues();
        let text = format!(
            "QueueEndpoint={endpoint};SharedAccessSignature={}",
            sas.as_str()
        );
        AzureWorkQueue::from_connection_string(&text, name, None).unwrap()
    }

    fn is_forbidden<T>(result: table_core::Result<T>) -> bool {
        result.is_err_and(|e| e.answer().is_some_and(|answer| answer.status == 403))
    }

    #[tokio::test]
    async fn a_signature_grants_its_permissions() {
        let name = Uuid::new_v4().to_string();
        named(&name).await.create_if_missing().await.unwrap();
        let worker = guest(&name, AccountPermissions::ALL, MESSAGES);
        worker.send("one", Duration::ZERO).await.unwrap();
        assert_eq!(worker.peek(9).await.unwrap()[0].body, "one");
        assert_eq!(
            worker
                .receive(9, Duration::from_secs(60))
                .await
                .unwrap()
                .len(),
            1
        );
        assert!(is_forbidden(worker.delete_queue().await));
        let sender = guest(&name, AccountPermissions::ADD, MESSAGES);
        sender.send("two", Duration::ZERO).await.unwrap();
        assert!(is_forbidden(sender.peek(9).await));
        assert!(is_forbidden(
            sender.receive(9, Duration::from_secs(60)).await
        ));
    }

    #[tokio::test]
    async fn a_signature_renews_and_deletes() {
        let name = Uuid::new_v4().to_string();
        let owner = named(&name).await;
        owner.create_if_missing().await.unwrap();
        owner.send("one", Duration::ZERO).await.unwrap();
        let received = owner.receive(1, Duration::from_secs(60)).await.unwrap();
        let receipt = received[0].receipt.as_ref().unwrap();
        let with = |rights| guest(&name, rights, MESSAGES | AccountResources::TABLE);
        assert!(is_forbidden(
            with(AccountPermissions::PROCESS)
                .renew(receipt, Duration::from_secs(60))
                .await
        ));
        let receipt = with(AccountPermissions::UPDATE)
            .renew(receipt, Duration::from_secs(60))
            .await
            .unwrap();
        assert!(is_forbidden(
            with(AccountPermissions::UPDATE).delete(&receipt).await
        ));
        with(AccountPermissions::PROCESS)
            .delete(&receipt)
            .await
            .unwrap();
        assert!(
            owner
                .delete(&receipt)
                .await
                .unwrap_err()
                .is_precondition_failed()
        );
    }

    #[tokio::test]
    async fn a_missing_queue_and_a_wrong_key_are_errors() {
        let text = connection_string().await;
        let missing = AzureWorkQueue::from_connection_string(&text, "missing", None).unwrap();
        let error = missing.peek(1).await.unwrap_err();
        assert_eq!(
            error.answer().unwrap().code.as_deref(),
            Some("QueueNotFound"),
            "{error}"
        );
        let wrong = text.replace("AccountKey=E", "AccountKey=F");
        let wrong = AzureWorkQueue::from_connection_string(&wrong, "missing", None).unwrap();
        let error = wrong.create_if_missing().await.unwrap_err();
        assert_eq!(error.answer().unwrap().status, 403, "{error}");
    }
}
