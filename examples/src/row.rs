//! A row of a CSV file, read by column names.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{NaiveDate, NaiveDateTime};
use csv::StringRecord;

use crate::Result;

/// The text of a missing value.
const MISSING: &str = "NA";

/// The columns, which the rows of a file share.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) path: PathBuf,
    pub(crate) names: StringRecord,
}

/// One row. Every error names the file, the line, the column and the value.
#[derive(Debug)]
pub struct Row {
    columns: Arc<Columns>,
    record: StringRecord,
}

impl Row {
    pub(crate) fn new(columns: &Arc<Columns>, record: csv::Result<StringRecord>) -> Result<Self> {
        match record {
            Ok(record) => Ok(Self {
                columns: Arc::clone(columns),
                record,
            }),
            Err(e) => Err(format!("{}: {e}", columns.path.display()).into()),
        }
    }

    /// Returns the value of a column that must have one.
    ///
    /// # Errors
    /// Fails if the column does not exist or its value is missing or malformed.
    pub fn required<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T> {
        match self.text(column)? {
            MISSING => Err(self.error(column, "a value is required")),
            text => self.parse(column, text),
        }
    }

    /// Returns the value of a column, or `None` if it is missing.
    ///
    /// # Errors
    /// Fails if the column does not exist or its value is malformed.
    pub fn optional<T: FromStr<Err: Display>>(&self, column: &str) -> Result<Option<T>> {
        match self.text(column)? {
            MISSING => Ok(None),
            text => self.parse(column, text).map(Some),
        }
    }

    /// Returns the local date in the columns `year`, `month` and `day`.
    ///
    /// # Errors
    /// Fails like [`required`](Self::required), and if the values are not a date.
    pub fn date(&self) -> Result<NaiveDate> {
        let (year, month, day) = (
            self.required("year")?,
            self.required("month")?,
            self.required("day")?,
        );
        NaiveDate::from_ymd_opt(year, month, day)
            .ok_or_else(|| self.error("day", format!("{year}-{month}-{day} is not a date")))
    }

    /// Returns the local time in the columns of [`date`](Self::date), `hour` and `minute`.
    ///
    /// # Errors
    /// Fails like [`required`](Self::required), and if the values are not a time.
    pub fn time(&self) -> Result<NaiveDateTime> {
        let (hour, minute) = (self.required("hour")?, self.required("minute")?);
        self.date()?
            .and_hms_opt(hour, minute, 0)
            .ok_or_else(|| self.error("hour", format!("{hour}:{minute} is not a time")))
    }

    /// Returns an error about the value of a column.
    pub fn error(
        &self,
        column: &str,
        problem: impl Display,
    ) -> Box<dyn std::error::Error + Send + Sync> {
        let line = self.record.position().map_or(0, csv::Position::line);
        let value = self.text(column).unwrap_or_default();
        let path = self.columns.path.display();
        format!("{path}, line {line}, column {column}, value {value:?}: {problem}").into()
    }

    fn parse<T: FromStr<Err: Display>>(&self, column: &str, text: &str) -> Result<T> {
        text.parse().map_err(|e| self.error(column, e))
    }

    fn text(&self, column: &str) -> Result<&str> {
        // A search by name for every value: a file has few columns, and the error can name the missing one.
        let index = self.columns.names.iter().position(|name| name == column);
        index
            .and_then(|index| self.record.get(index))
            .ok_or_else(|| {
                let names = self.columns.names.iter().collect::<Vec<_>>().join(", ");
                format!(
                    "{} has no column {column}, only {names}",
                    self.columns.path.display()
                )
                .into()
            })
    }
}
