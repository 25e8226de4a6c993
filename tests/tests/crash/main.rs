//! A process dies at every request of every path that takes several: before the request takes effect, and
//! after it did but before its answer came. Then another process recovers, and the indexes must be what
//! the entities say.

mod check;
mod paths;
mod process;
mod run;

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::store::Result;
use table_embedded::{Durability, EmbeddedStore};

use crate::paths::PATHS;
use crate::run::{Recover, crash_everywhere, crash_sometimes};

#[tokio::test(start_paused = true)]
async fn crashes_in_memory_with_recovery_by_workers() -> Result<()> {
    let crashes = crash_everywhere(&PATHS, Recover::ByWorkers, || Arc::new(MemoryStore::new())).await?;
    eprintln!("{crashes} crashes, recovered by workers");
    assert!(crashes > 300, "only {crashes}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn crashes_in_memory_with_recovery_by_a_sweep() -> Result<()> {
    let crashes = crash_everywhere(&PATHS, Recover::BySweep, || Arc::new(MemoryStore::new())).await?;
    eprintln!("{crashes} crashes, recovered by a sweep");
    assert!(crashes > 300, "only {crashes}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn crashes_in_the_embedded_store() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = EmbeddedStore::builder(directory.path().join("store"));
    let store = Arc::new(builder.durability(Durability::Relaxed).open().await?);
    let crashes = crash_sometimes(&PATHS, store, 7, 60).await?;
    eprintln!("{crashes} crashes in the embedded store");
    assert!(crashes >= 30, "only {crashes}");
    Ok(())
}
