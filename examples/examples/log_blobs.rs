//! Log data in blobs: records are collected, stored per hour, and found by their time. Use it for records that are read by the day, not
//! one by one. It uses a blob store only, no table.
//!
//! Cost: 1 request per buffer, 2 in a new directory; reading 1 per day and 1 per blob.

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

    // `LogSync::Buffered`, the default: a crash can lose the records of the last minute (at most 4 MiB), and the records that arrive while
    // they are stored, up to four buffers: 16 MiB in all.
    let log = LogWriter::new(blobs.clone(), "web", LogOptions::default())?;
    for millis in 0..1000 {
        log.append(&Request {
            path: "/flights".to_owned(),
            millis,
        })
        .await?;
    }
    log.close().await?;
    let entries: Vec<LogEntry> = read_logs(blobs.clone(), "web", start..Ticks::MAX)
        .try_collect()
        .await?;
    assert_eq!(entries.len(), 1000);
    assert_eq!(
        entries[7].json::<Request>()?,
        Request {
            path: "/flights".to_owned(),
            millis: 7
        }
    );

    // `LogSync::Every(1)`: `append` returns when the record is stored, so no acknowledged record is lost. Several writers can write one
    // log.
    let options = LogOptions::default()
        .with_format(LogFormat::Delimited('\t'))
        .with_sync(LogSync::Every(1));
    let first_writer = LogWriter::new(blobs.clone(), "audit", options.clone())?;
    let second_writer = LogWriter::new(blobs.clone(), "audit", options)?;
    first_writer
        .append_fields(&["ken", "logged in\nfrom home"])
        .await?;
    second_writer.append_fields(&["kim", "logged in"]).await?;
    let entries: Vec<LogEntry> = read_logs(blobs, "audit", start..Ticks::MAX)
        .try_collect()
        .await?;
    assert_eq!(entries[0].fields(), ["ken", "logged in\nfrom home"]);
    assert_eq!(entries[1].fields(), ["kim", "logged in"]);
    Ok(())
}
