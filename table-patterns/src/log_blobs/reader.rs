//! Reads the records of a range of time.

use std::ops::Range;
use std::sync::Arc;

use chrono::{DateTime, Days, Months, NaiveDate, NaiveTime, Timelike, Utc};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path;
use table_core::model::Ticks;
use table_core::store::{Error, Result};

use super::LogEntry;
use super::format::{Header, check_service, day, minute_of_day, number, parse};
use crate::blobs::{self, blob_error};

/// Reads the records of a service in a range of time; the start is included, the end is not.
///
/// 1 list request per day (or page of names) and 1 request per blob of the directories that the range touches. One blob
/// and the names of one day are in memory.
///
/// A range of more than 31 days, or one that ends more than a day in the future by the local clock, first takes a search
/// for the days with blobs: 1 request, and 1 per year and per month with blobs. A program can therefore ask for all records of a service
/// with `Ticks::MIN..Ticks::MAX`.
///
/// The records of one writer come in their order; within a directory, the records of several writers come blob by blob.
/// Both formats and both periods are recognized.
///
/// # Errors
/// Errors are items, and the stream continues after them: errors of the blob store; a damaged blob, after the records
/// of the blob that can be read.
///
/// An example is at [`LogWriter`](super::LogWriter).
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
    let bounds = range.clone();
    let names = days.then(move |day| {
        let (store, service, range) = (Arc::clone(&store), service.clone(), bounds.clone());
        async move { names(&*store, &service, day?, &range).await }
    });
    // `try_flatten` goes on after an error, so a day or a blob that cannot be read does not hide the others.
    let names = names
        .map_ok(|names| stream::iter(names).map(Ok::<_, Error>))
        .try_flatten();
    let entries = names.then(move |path| {
        let blobs = Arc::clone(&blobs);
        async move { entries(&*blobs, &path?).await }
    });
    let entries = entries.map_ok(stream::iter).try_flatten();
    Box::pin(entries.try_filter(move |entry| std::future::ready(range.contains(&entry.time))))
}

/// The blobs of a day in the directories that the range touches, by directory and number.
async fn names(
    blobs: &dyn ObjectStore,
    service: &str,
    date: DateTime<Utc>,
    range: &Range<Ticks>,
) -> Result<Vec<Path>> {
    let all = blobs
        .list(Some(&day(service, date)?))
        .map_ok(|blob| blob.location);
    let all: Vec<Path> = all.try_collect().await.map_err(blob_error)?;
    let end = Ticks::new(range.end.get() - 1).unwrap_or(Ticks::MIN);
    let (from, to) = (range.start.to_datetime(), end.to_datetime());
    // A directory may hold an hour of records. For directories of minutes this may select more than needed, never less.
    let first = if from > date { from.hour() * 60 } else { 0 };
    let last = if to.date_naive() == date.date_naive() {
        to.hour() * 60 + to.minute()
    } else {
        u32::MAX
    };
    let with_position = |path: Path| Some(((minute_of_day(&path)?, number(&path)?), path));
    let mut found: Vec<_> = all.into_iter().filter_map(with_position).collect();
    found.retain(|((minute, _), _)| (first..=last).contains(minute));
    found.sort_by_key(|(position, _)| *position);
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The records of a blob, and an error as the last item if some cannot be read.
async fn entries(blobs: &dyn ObjectStore, path: &Path) -> Result<Vec<Result<LogEntry>>> {
    // A blob that was listed and is gone was deleted with its log: not an error.
    let Some(content) = blobs::open(blobs, path).await? else {
        return Ok(Vec::new());
    };
    let damaged = || Error::corrupt(format!("the log blob {path} is damaged"));
    let text = String::from_utf8(blobs::collected(content).await?).map_err(|_| damaged())?;
    let (header, lines) = text.split_once('\n').ok_or_else(damaged)?;
    let (header, is_json) = Header::parse(header).ok_or_else(damaged)?;
    let found = lines
        .lines()
        .filter_map(|line| LogEntry::parse(line, is_json));
    let mut found: Vec<_> = found.map(Ok).collect();
    // The header counts the records: fewer entries mean a line that cannot be parsed, and fewer or more lines a blob that was cut or changed.
    if (found.len(), lines.lines().count()) != (header.records as usize, header.records as usize) {
        found.push(Err(damaged()));
    }
    Ok(found)
}

/// The maximal number of days that are listed without a search for the days with blobs.
const FEW_DAYS: usize = 31;

/// Days, each by its first moment, in order.
type DayStream = BoxStream<'static, Result<DateTime<Utc>>>;

/// The days that the range touches. For many days or days in the future: only the days that have blobs.
fn days(blobs: Arc<dyn ObjectStore>, service: &str, range: &Range<Ticks>) -> DayStream {
    let range = range.start.to_datetime()..range.end.to_datetime();
    let few: Vec<_> = calendar(&range).take(FEW_DAYS + 1).collect();
    // Most days of a range without an end, or of many years, have no blob: the names of directories say which days have one.
    if few.len() <= FEW_DAYS && range.end <= Utc::now() + Days::new(1) {
        return stream::iter(few).map(Ok).boxed();
    }
    days_below(blobs, service.to_owned(), Vec::new(), range)
}

/// Every day that the range touches.
fn calendar(range: &Range<DateTime<Utc>>) -> impl Iterator<Item = DateTime<Utc>> + use<> {
    let end = range.end;
    let first = (range.start < end).then(|| start(range.start.date_naive()));
    let next = |day: &DateTime<Utc>| day.checked_add_days(Days::new(1));
    std::iter::successors(first, next).take_while(move |day| *day < end)
}

const fn start(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// The days of the range with blobs in a directory: of a service (`date` is empty), a year or a month.
fn days_below(
    blobs: Arc<dyn ObjectStore>,
    directory: String,
    date: Vec<u32>,
    range: Range<DateTime<Utc>>,
) -> DayStream {
    let listed = {
        let (blobs, directory, range) = (Arc::clone(&blobs), directory.clone(), range.clone());
        async move { subdirectories(&*blobs, &directory, &date, &range).await }
    };
    let parts = stream::once(listed)
        .map_ok(|parts| stream::iter(parts).map(Ok::<_, Error>))
        .try_flatten();
    let days = parts.map_ok(move |(name, date, first)| match date.len() {
        3 => stream::iter([Ok(first)]).boxed(),
        _ => days_below(
            Arc::clone(&blobs),
            format!("{directory}/{name}"),
            date,
            range.clone(),
        ),
    });
    days.try_flatten().boxed()
}

/// The subdirectories that the range touches, each with its name, date and first moment. 1 request.
async fn subdirectories(
    blobs: &dyn ObjectStore,
    directory: &str,
    date: &[u32],
    range: &Range<DateTime<Utc>>,
) -> Result<Vec<(String, Vec<u32>, DateTime<Utc>)>> {
    let listed = blobs
        .list_with_delimiter(Some(&parse(directory)?))
        .await
        .map_err(blob_error)?;
    let dated = |path: Path| {
        let name = path.filename()?.to_owned();
        let date = [date, &[name.parse().ok()?]].concat();
        let (first, end) = span(&date)?;
        (first < range.end && end > range.start).then_some((name, date, first))
    };
    let mut found: Vec<_> = listed
        .common_prefixes
        .into_iter()
        .filter_map(dated)
        .collect();
    found.sort_by_key(|(_, _, first)| *first);
    Ok(found)
}

/// The first moment of a year, a month or a day, and the first moment after it.
fn span(date: &[u32]) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let from =
        |year: u32, month, day| NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day);
    let (first, end) = match *date {
        [year] => (from(year, 1, 1)?, from(year + 1, 1, 1)?),
        [year, month] => (
            from(year, month, 1)?,
            from(year, month, 1)?.checked_add_months(Months::new(1))?,
        ),
        [year, month, day] => (from(year, month, day)?, from(year, month, day)?.succ_opt()?),
        _ => return None,
    };
    Some((start(first), start(end)))
}
