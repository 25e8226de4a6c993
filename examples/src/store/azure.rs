//! The stores `azurite` and `azure`: an account's tables and blobs.

use std::time::Duration;

use azurite::Azurite;
use azurite::blobs::azure_container;
use table_azure::AzureTableStore;
use table_core::Error;
use table_core::adapter::{RetryPolicy, StoreBuilder};

use super::{CONTAINER, OpenStore, Place};

/// Opens a store on a new emulator, which stops with the store.
pub(super) async fn open_emulator() -> table_core::Result<OpenStore> {
    let started = tokio::task::spawn_blocking(Azurite::start).await;
    let started = started.unwrap_or_else(|e| Err(e.to_string()));
    let emulator = started.map_err(Error::application)?;
    let opened = open_account(&emulator.connection_string()).await?;
    Ok(OpenStore {
        emulator: Some(emulator),
        ..opened
    })
}

/// Opens an account's tables and blobs.
pub(super) async fn open_account(connection_string: &str) -> table_core::Result<OpenStore> {
    let store = AzureTableStore::from_connection_string(connection_string, None)?;
    let blobs = azure_container(connection_string, CONTAINER)
        .await
        .map_err(Error::application)?;
    let store = StoreBuilder::new(store).retry(retry_policy()).build();
    let opened = OpenStore::of(store, blobs, identity(connection_string));
    Ok(OpenStore {
        place: place(connection_string),
        ..opened
    })
}

/// Identifies the account of a connection string, without its keys.
fn identity(connection_string: &str) -> String {
    let identifying = [
        "AccountName=",
        "TableEndpoint=",
        "EndpointSuffix=",
        "UseDevelopmentStorage=",
    ];
    let parts = connection_string.split(';').map(str::trim);
    parts
        .filter(|part| identifying.iter().any(|name| part.starts_with(name)))
        .collect::<Vec<_>>()
        .join(";")
}

/// Distinguishes an emulator on this machine from a service.
fn place(connection_string: &str) -> Place {
    let of_emulator = ["UseDevelopmentStorage=true", "//127.0.0.1"];
    let is_emulator = of_emulator
        .iter()
        .any(|part| connection_string.contains(part));
    if is_emulator {
        Place::Emulator
    } else {
        Place::Service
    }
}

/// Retries with write ids for up to three minutes. The service may reserve the name of a deleted table for at
/// least 40 seconds (<https://learn.microsoft.com/rest/api/storageservices/delete-table>).
fn retry_policy() -> RetryPolicy {
    RetryPolicy::default()
        .with_write_ids()
        .with_max_attempts(40)
        .with_deadline(Some(Duration::from_secs(180)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
    use table_core::memory::MemoryStore;
    use table_core::model::TableName;
    use table_core::store::{ErrorKind, OperationKind, TableStore};
    use tokio::time::Instant;

    use super::*;

    fn busy(times: u64) -> Arc<dyn TableStore> {
        let faults = FaultInjector::new(1);
        faults.add(
            FaultRule::new(Fault::TableBeingDeleted)
                .on(OperationKind::CreateTable)
                .times(times),
        );
        StoreBuilder::new(Faulty::new(MemoryStore::new(), faults))
            .retry(retry_policy())
            .build()
    }

    #[test]
    fn an_account_is_identified_without_its_key() {
        let text = "DefaultEndpointsProtocol=https;AccountName=flights;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net";
        assert_eq!(
            identity(text),
            "AccountName=flights;EndpointSuffix=core.windows.net"
        );
        let text = "TableEndpoint=https://flights.table.core.windows.net/;SharedAccessSignature=sv=1&sig=secret";
        assert_eq!(
            identity(text),
            "TableEndpoint=https://flights.table.core.windows.net/"
        );
    }

    #[test]
    fn only_a_service_has_the_long_durations() {
        assert!(matches!(
            place("UseDevelopmentStorage=true"),
            Place::Emulator
        ));
        assert!(matches!(
            place("TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;"),
            Place::Emulator
        ));
        assert!(matches!(
            place("AccountName=flights;EndpointSuffix=core.windows.net"),
            Place::Service
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_is_created_when_its_name_is_free_again() {
        let (store, table) = (busy(12), TableName::new("Flights").unwrap());
        let started = Instant::now();
        store.create_table(&table).await.unwrap();
        assert!(
            started.elapsed() > Duration::from_secs(30),
            "{:?}",
            started.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn creating_a_table_fails_after_minutes_if_the_name_is_never_free() {
        let (store, table) = (busy(u64::MAX), TableName::new("Flights").unwrap());
        let started = Instant::now();
        let error = store.create_table(&table).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::TableBeingDeleted { .. }),
            "{error}"
        );
        let waited = started.elapsed().as_secs();
        assert!((120..=180).contains(&waited), "{waited} s");
    }
}
