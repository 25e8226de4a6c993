//! Names of log blobs.

use chrono::{DateTime, Utc};
use object_store::path::Path;
use table_core::model::Ticks;
use table_core::store::{Error, Result};

use super::LogPeriod;

/// Checks the name of a service: what every blob store takes as a directory.
pub(super) fn check_service(service: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if service.is_empty() || !service.chars().all(legal) {
        let reason = "use lower-case ASCII letters, digits, `-` and `_`";
        return Err(Error::invalid_name("service", service, reason));
    }
    Ok(())
}

/// `2014/07/31/1800`.
pub(super) fn directory(service: &str, at: Ticks, period: LogPeriod) -> String {
    let minutes = match period {
        LogPeriod::Hour => "%H00",
        LogPeriod::Minute => "%H%M",
    };
    format!("{service}/{}", at.to_datetime().format(&format!("%Y/%m/%d/{minutes}")))
}

/// `…/000001.log`.
pub(super) fn path(directory: &str, number: u32) -> Result<Path> {
    parse(&format!("{directory}/{number:06}.log"))
}

/// A day's directory.
pub(super) fn day(service: &str, day: DateTime<Utc>) -> Result<Path> {
    parse(&format!("{service}/{}", day.format("%Y/%m/%d")))
}

pub(super) fn parse(text: &str) -> Result<Path> {
    Path::parse(text).map_err(|e| crate::blobs::blob_error(e.into()))
}

/// The number of a blob, if it is one of a log.
pub(super) fn number(path: &Path) -> Option<u32> {
    path.filename()?.strip_suffix(".log")?.parse().ok()
}

/// The first minute of the day of a blob's directory.
pub(super) fn minutes(path: &Path) -> Option<u32> {
    let hhmm = path.as_ref().rsplit('/').nth(1)?;
    let (hour, minute) = hhmm.split_at_checked(2)?;
    Some(hour.parse::<u32>().ok()? * 60 + minute.parse::<u32>().ok()?)
}
