use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Timelike, Utc};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path;
use table_core::model::Ticks;
use table_core::store::{Error, Result};

use super::LogEntry;
use super::days::days;
use super::entry::Header;
use super::name::{check_service, day, minutes, number};
use crate::blobs::{self, blob_error};

/// The records of a service in a range of time: the first moment included, the last not.
///
/// One list request for each day (or page of names), one request for each blob of the directories that the
/// range touches; one blob and the names of a day are in memory. Where the range touches more than 31 days, or ends
/// more than a day in the future by the clock of this machine, the days that
/// have blobs are looked for first: one request, and one for each year and each month that has any; so everything of a
/// service may be asked for, `Ticks::MIN..Ticks::MAX`, whatever the clocks of its writers. Records of one writer come
/// in their order; within a directory, those of several come blob by blob. Works for both formats and periods.
///
/// # Errors
/// As items, after which the stream goes on: the blob store's; a damaged blob, after those of its records that can
/// be read.
pub fn read_logs(
    blobs: Arc<dyn ObjectStore>,
    service: &str,
    range: Range<Ticks>,
) -> impl Stream<Item = Result<LogEntry>> + Send + Unpin {
    let (service, checked) = (service.to_owned(), check_service(service));
    let days = match checked {
        Ok(()) => days(Arc::clone(&blobs), &service, &range).left_stream(),
        Err(error) => stream::iter([Err(error)]).right_stream(),
    };
    let store = Arc::clone(&blobs);
    let within = range.clone();
    let names = days.then(move |day| {
        let (store, service, range) = (Arc::clone(&store), service.clone(), within.clone());
        async move { names(&*store, &service, day?, &range).await }
    });
    let names = names.flat_map(|names| match names {
        Ok(names) => stream::iter(names).map(Ok).left_stream(),
        Err(error) => stream::iter([Err(error)]).right_stream(),
    });
    let entries = names.then(move |path| {
        let blobs = Arc::clone(&blobs);
        async move { entries(&*blobs, &path?).await }
    });
    let entries = entries.flat_map(|found| match found {
        Ok(found) => stream::iter(found).left_stream(),
        Err(error) => stream::iter([Err(error)]).right_stream(),
    });
    Box::pin(entries.try_filter(move |entry| std::future::ready(range.contains(&entry.time))))
}

/// The blobs of a day whose directories the range touches, in their order.
async fn names(
    blobs: &dyn ObjectStore,
    service: &str,
    of: DateTime<Utc>,
    range: &Range<Ticks>,
) -> Result<Vec<Path>> {
    let all = blobs.list(Some(&day(service, of)?)).map_ok(|blob| blob.location);
    let all: Vec<Path> = all.try_collect().await.map_err(blob_error)?;
    let end = Ticks::new(range.end.get() - 1).unwrap_or(Ticks::MIN);
    let (from, to) = (range.start.to_datetime(), end.to_datetime());
    // A directory may hold the hour after its name: one of minutes is looked at too often, never too rarely.
    let first = if from > of { from.hour() * 60 } else { 0 };
    let last = if to.date_naive() == of.date_naive() { to.hour() * 60 + to.minute() } else { u32::MAX };
    let place = |path: Path| Some(((minutes(&path)?, number(&path)?), path));
    let mut found: Vec<_> = all.into_iter().filter_map(place).collect();
    found.retain(|((minute, _), _)| (first..=last).contains(minute));
    found.sort_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The records of a blob; at their end an error if some cannot be read.
async fn entries(blobs: &dyn ObjectStore, path: &Path) -> Result<Vec<Result<LogEntry>>> {
    // Nobody deletes one log blob of a day alone; where it is gone, the log was cleared.
    let Some(content) = blobs::open(blobs, path).await? else { return Ok(Vec::new()) };
    let bytes = content.try_fold(Vec::new(), |mut all, piece: Bytes| async move {
        all.extend_from_slice(&piece);
        Ok(all)
    });
    let damaged = || Error::corrupt(format!("the log blob {path} is damaged"));
    let text = String::from_utf8(bytes.await?).map_err(|_| damaged())?;
    let (header, lines) = text.split_once('\n').ok_or_else(damaged)?;
    let (header, is_json) = Header::parse(header).ok_or_else(damaged)?;
    let found = lines.lines().filter_map(|line| LogEntry::parse(line, is_json));
    let mut found: Vec<_> = found.map(Ok).collect();
    if (found.len(), lines.lines().count()) != (header.records as usize, header.records as usize) {
        found.push(Err(damaged()));
    }
    Ok(found)
}
