//! The raw lines of each day of the file: large entities with their values in blobs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use chrono::NaiveDate;
use examples::Result;
use examples::data::DataFile;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use sha2::{Digest, Sha256};
use table_patterns::prelude::*;

use crate::answer::Answer;

/// The table of [`DayFile`]s.
pub(crate) const FILES: &str = "Files";
/// Number of days that are stored concurrently.
const CONCURRENCY: usize = 8;

/// The lines of a day, without the headers. More than 32,768 bytes, as on every day of the bundled data, are in a blob.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "DayFile",
    rename_all = "PascalCase",
    partition_key = "flights",
    row_key = "{date}"
)]
pub(crate) struct DayFile {
    date: NaiveDate,
    #[large]
    csv: Vec<u8>,
}

/// The table of the days' lines.
#[derive(Debug)]
pub(crate) struct DayFiles(Table<DayFile>);

impl DayFiles {
    pub(crate) fn open(store: Arc<dyn TableStore>, blobs: Arc<dyn ObjectStore>) -> Result<Self> {
        Ok(Self(Database::new(store).with_blobs(blobs).table(FILES)?))
    }

    /// Creates the table, or removes the rows and blobs of an earlier import.
    pub(crate) async fn clear(&self) -> Result<()> {
        self.0.declare().await?;
        self.0.query().delete().await?.into_result()?;
        Ok(())
    }

    /// Stores the lines of every day of a file of flights.
    pub(crate) async fn load(&self, flights: &DataFile) -> Result<()> {
        let days = stream::iter(days(flights)?).map(Ok::<_, table_core::Error>);
        let insert = |day| async move { self.0.insert(&day).await.map(drop) };
        Ok(days.try_for_each_concurrent(CONCURRENCY, insert).await?)
    }

    /// Reads a day's lines as a stream and hashes them. They are never completely in memory.
    pub(crate) async fn answer(&self, day: NaiveDate) -> Result<Answer> {
        let found = self.0.read_stream(DayFile::key(day)?, DayFile::CSV).await?;
        let mut content = found
            .ok_or_else(|| format!("there is no file of {day}"))?
            .content;
        let (mut hash, mut bytes, mut lines) = (Sha256::new(), 0, 0);
        while let Some(piece) = content.try_next().await? {
            hash.update(&piece);
            bytes += piece.len() as u64;
            lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
        let mut sha256 = String::new();
        for byte in hash.finalize() {
            write!(sha256, "{byte:02x}")?;
        }
        Ok(Answer::Csv {
            day: day.to_string(),
            bytes,
            lines,
            sha256,
        })
    }
}

/// Returns the lines of each day, in the order of the file.
fn days(flights: &DataFile) -> Result<Vec<DayFile>> {
    let mut days = BTreeMap::<NaiveDate, Vec<u8>>::new();
    for row in flights.raw_rows()? {
        let (row, raw) = row?;
        days.entry(row.date()?).or_default().extend_from_slice(raw);
    }
    Ok(days
        .into_iter()
        .map(|(date, csv)| DayFile { date, csv })
        .collect())
}
