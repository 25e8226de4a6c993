//! Log data in blobs: records are collected, stored per hour, and found by their time.

use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use serde::{Deserialize, Serialize};
use table_core::model::Ticks;
use table_patterns::log_blobs::{LogEntry, LogFormat, LogOptions, LogSync, LogWriter, read_logs};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Request {
    path: String,
    millis: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let blobs = Arc::new(LocalFileSystem::new_with_prefix(directory.path())?.with_fsync(true));
    let start = Ticks::now();

    // A crash may lose the last minute or 4 MiB.
    let log = LogWriter::new(blobs.clone(), "web", LogOptions::default())?;
    for millis in 0..1000 {
        log.append(&Request { path: "/flights".to_owned(), millis }).await?;
    }
    log.close().await?;
    let entries: Vec<LogEntry> = read_logs(blobs.clone(), "web", start..Ticks::MAX).try_collect().await?;
    assert_eq!(entries.len(), 1000);
    assert_eq!(entries[7].json::<Request>()?, Request { path: "/flights".to_owned(), millis: 7 });

    // Here no acknowledged record is lost, also if other writers use the same log.
    let options = LogOptions::default().with_format(LogFormat::Delimited('\t')).with_sync(LogSync::Every(1));
    let (one, other) = (
        LogWriter::new(blobs.clone(), "audit", options.clone())?,
        LogWriter::new(blobs.clone(), "audit", options)?,
    );
    one.append_fields(&["ken", "logged in\nfrom home"]).await?;
    other.append_fields(&["kim", "logged in"]).await?;
    let entries: Vec<LogEntry> = read_logs(blobs, "audit", start..Ticks::MAX).try_collect().await?;
    assert_eq!(entries[0].fields(), ["ken", "logged in\nfrom home"]);
    assert_eq!(entries[1].fields(), ["kim", "logged in"]);
    Ok(())
}
