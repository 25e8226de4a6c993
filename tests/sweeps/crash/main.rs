//! A process crashes at every request of every path of several requests: before the request takes effect, or
//! after it took effect and before its answer arrives. Then another process recovers, and the indexes must
//! agree with the entities.

mod azure_queue;
#[allow(dead_code, reason = "other tests use the other backends")]
#[path = "../../tests/suites/backends.rs"]
mod backends;
mod check;
mod paths;
mod process;
mod run;
mod suite;
mod transaction_process;
mod transactions;

use std::sync::Arc;

use conformance::azurite::Azurite;
use conformance::real_time::RealTimeStore;
use table_azure::AzureTableStore;
use table_core::memory::MemoryStore;
use table_core::store::{Result, TableStore};
use table_embedded::{Durability, EmbeddedStore};
use tempfile::TempDir;

use crate::paths::PATHS;
use crate::process::Names;
use crate::run::{InjectedFault, Recover, crash_everywhere, crash_sometimes};
use crate::transaction_process::Stores;
use crate::transactions::{faults_at_drawn_requests, faults_at_every_request, faults_in_discards};

async fn on_disk(directory: &TempDir) -> Result<Arc<RealTimeStore>> {
    let builder = EmbeddedStore::builder(directory.path().join("store"));
    Ok(RealTimeStore::around(
        builder.durability(Durability::Relaxed).open().await?,
    ))
}

/// The emulator, in tests with virtual time.
fn emulated() -> Result<Arc<RealTimeStore>> {
    let text = Azurite::shared().connection_string();
    Ok(RealTimeStore::around(
        AzureTableStore::from_connection_string(&text, None)?,
    ))
}

#[tokio::test(start_paused = true)]
async fn crashes_in_memory_with_recovery_by_workers() -> Result<()> {
    let crashes = crash_everywhere(
        &PATHS,
        &InjectedFault::CRASHES,
        Recover::ByWorkers,
        in_new_memory,
    )
    .await?;
    eprintln!("{crashes} crashes, recovered by workers");
    assert!(crashes > 300, "only {crashes} crashes");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn crashes_in_memory_with_recovery_by_a_sweep() -> Result<()> {
    let crashes = crash_everywhere(
        &PATHS,
        &InjectedFault::CRASHES,
        Recover::BySweep,
        in_new_memory,
    )
    .await?;
    eprintln!("{crashes} crashes, recovered by a sweep");
    assert!(crashes > 300, "only {crashes} crashes");
    Ok(())
}

fn in_new_memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

/// As programs run: a retry sends lost requests again, and write ids show whether a write took effect.
#[tokio::test(start_paused = true)]
async fn crashes_and_losses_under_retries_in_memory() -> Result<()> {
    let fault = &InjectedFault::UNDER_RETRIES;
    let harmed = crash_everywhere(&PATHS, fault, Recover::ByWorkers, in_new_memory).await?;
    eprintln!("{harmed} crashes and losses under retries");
    assert!(harmed > 600, "only {harmed} faults");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn crashes_in_the_embedded_store() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    crash_sometimes(
        &PATHS,
        &InjectedFault::CRASHES,
        on_disk(&directory).await?,
        7,
        4,
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn crashes_and_losses_under_retries_in_the_embedded_store() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    crash_sometimes(
        &PATHS,
        &InjectedFault::UNDER_RETRIES,
        on_disk(&directory).await?,
        3,
        4,
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn crashes_in_azurite() -> Result<()> {
    crash_sometimes(&PATHS, &InjectedFault::CRASHES, emulated()?, 11, 2).await
}

#[tokio::test(start_paused = true)]
async fn crashes_and_losses_under_retries_in_azurite() -> Result<()> {
    crash_sometimes(&PATHS, &InjectedFault::UNDER_RETRIES, emulated()?, 13, 1).await
}

fn in_memory(_: usize) -> Stores {
    Stores {
        current: Arc::new(MemoryStore::new()),
        archive: Arc::new(MemoryStore::new()),
        names: Names::new(0),
    }
}

#[tokio::test(start_paused = true)]
async fn transactions_with_faults_in_memory() -> Result<()> {
    let faults = faults_at_every_request(in_memory).await?;
    eprintln!("{faults} faults of transactions");
    assert!(faults > 500, "only {faults} faults");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn discards_with_faults_in_memory() -> Result<()> {
    let faults = faults_in_discards(in_memory).await?;
    eprintln!("{faults} faults of discarding");
    assert!(faults > 30, "only {faults} faults");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn transactions_with_faults_from_memory_to_the_embedded_store() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let (current, archive) = (Arc::new(MemoryStore::new()), on_disk(&directory).await?);
    let stores = |n| Stores {
        current: current.clone(),
        archive: archive.clone() as Arc<dyn TableStore>,
        names: Names::new(n),
    };
    let faults = faults_at_drawn_requests(stores, 3, 80).await?;
    eprintln!("{faults} faults of transactions into the embedded store");
    assert!(faults > 40, "only {faults} faults");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn transactions_with_faults_from_the_embedded_store_to_azurite() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let (current, archive) = (on_disk(&directory).await?, emulated()?);
    let stores = |n| Stores {
        current: current.clone(),
        archive: archive.clone() as Arc<dyn TableStore>,
        names: Names::new(1000 + n),
    };
    let faults = faults_at_drawn_requests(stores, 5, 40).await?;
    eprintln!("{faults} faults of transactions into Azurite");
    assert!(faults > 20, "only {faults} faults");
    Ok(())
}
