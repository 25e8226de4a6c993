//! The days of a range of time.

use std::ops::Range;
use std::sync::Arc;

use chrono::{DateTime, Days, Months, NaiveDate, NaiveTime, Utc};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use table_core::model::Ticks;
use table_core::store::{Error, Result};

use super::name::parse;
use crate::blobs::blob_error;

/// The most days that are listed without asking first which there are.
const FEW: usize = 31;

/// The first moments of days, in their order.
pub(super) type Found = BoxStream<'static, Result<DateTime<Utc>>>;

/// The days that the range touches; of many, and of the future, those that have blobs.
pub(super) fn days(blobs: Arc<dyn ObjectStore>, service: &str, range: &Range<Ticks>) -> Found {
    let range = range.start.to_datetime()..range.end.to_datetime();
    let few: Vec<_> = calendar(&range).take(FEW + 1).collect();
    if few.len() <= FEW && range.end <= Utc::now() + Days::new(1) {
        return stream::iter(few).map(Ok).boxed();
    }
    below(blobs, service.to_owned(), Vec::new(), range)
}

fn calendar(range: &Range<DateTime<Utc>>) -> impl Iterator<Item = DateTime<Utc>> + use<> {
    let end = range.end;
    let first = (range.start < end).then(|| start(range.start.date_naive()));
    let next = |day: &DateTime<Utc>| day.checked_add_days(Days::new(1));
    std::iter::successors(first, next).take_while(move |day| *day < end)
}

const fn start(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// The days in the directory of a service, a year or a month, as far as the range goes.
fn below(
    blobs: Arc<dyn ObjectStore>,
    directory: String,
    date: Vec<u32>,
    range: Range<DateTime<Utc>>,
) -> Found {
    let listed = {
        let (blobs, directory, range) = (Arc::clone(&blobs), directory.clone(), range.clone());
        async move { within(&*blobs, &directory, &date, &range).await }
    };
    let parts = stream::once(listed).map_ok(|parts| stream::iter(parts).map(Ok::<_, Error>)).try_flatten();
    let days = parts.map_ok(move |(name, date, first)| match date.len() {
        3 => stream::iter([Ok(first)]).boxed(),
        _ => below(Arc::clone(&blobs), format!("{directory}/{name}"), date, range.clone()),
    });
    days.try_flatten().boxed()
}

/// The directories in another, each with its date and first moment, that the range touches. One request.
async fn within(
    blobs: &dyn ObjectStore,
    directory: &str,
    date: &[u32],
    range: &Range<DateTime<Utc>>,
) -> Result<Vec<(String, Vec<u32>, DateTime<Utc>)>> {
    let listed = blobs.list_with_delimiter(Some(&parse(directory)?)).await.map_err(blob_error)?;
    let part = |path: object_store::path::Path| {
        let name = path.filename()?.to_owned();
        let date = [date, &[name.parse().ok()?]].concat();
        let (first, end) = span(&date)?;
        (first < range.end && end > range.start).then_some((name, date, first))
    };
    let mut found: Vec<_> = listed.common_prefixes.into_iter().filter_map(part).collect();
    found.sort_by_key(|(_, _, first)| *first);
    Ok(found)
}

/// From when on and before when a year, a month or a day is.
fn span(date: &[u32]) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let from = |year: u32, month, day| NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day);
    let (first, end) = match *date {
        [year] => (from(year, 1, 1)?, from(year + 1, 1, 1)?),
        [year, month] => (from(year, month, 1)?, from(year, month, 1)?.checked_add_months(Months::new(1))?),
        [year, month, day] => (from(year, month, day)?, from(year, month, day)?.succ_opt()?),
        _ => return None,
    };
    Some((start(first), start(end)))
}
