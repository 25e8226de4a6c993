use std::ops::Bound;

use table_core::model::{Key, PartitionKey, key_order};
use table_core::query::Range;
use table_core::{Error, Result};

/// The range of entities that a signature covers, in the service's order, with both ends included.
///
/// A bound of the RowKey applies together with the PartitionKey of the same end. A range over several
/// partitions therefore does not bound the RowKeys in each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SasRange {
    pub(super) start_partition: Option<String>,
    pub(super) start_row: Option<String>,
    pub(super) end_partition: Option<String>,
    pub(super) end_row: Option<String>,
}

impl SasRange {
    /// The whole table.
    pub const ALL: Self = Self { start_partition: None, start_row: None, end_partition: None, end_row: None };

    /// One partition.
    pub fn partition(partition: &PartitionKey) -> Self {
        Self::partitions(partition, partition)
    }

    /// All partitions from `first` to `last`.
    pub fn partitions(first: &PartitionKey, last: &PartitionKey) -> Self {
        let text = |key: &PartitionKey| Some(key.as_str().to_owned());
        Self { start_partition: text(first), end_partition: text(last), ..Self::ALL }
    }

    /// All entities from `first` to `last`.
    pub fn entities(first: &Key, last: &Key) -> Self {
        Self {
            start_partition: Some(first.partition().to_owned()),
            start_row: Some(first.row().to_owned()),
            end_partition: Some(last.partition().to_owned()),
            end_row: Some(last.row().to_owned()),
        }
    }

    /// Restricts one partition to a range of RowKeys. If the range excludes its end, the signature ends just
    /// before it: at the end with its last character replaced by the preceding one, plus one U+FFFF. The
    /// signature then omits the few rows in between, and never covers a row outside the range.
    ///
    /// # Errors
    /// Fails if the range is not one partition.
    ///
    /// ```
    /// use table_azure::sas::SasRange;
    /// use table_core::model::PartitionKey;
    /// use table_core::query::{Filter, Query};
    /// let rows = Query::new().with_filter(Filter::starts_with(Filter::ROW_KEY, "order_")).bounds().row;
    /// let orders = SasRange::partition(&PartitionKey::new("contoso")?).rows(rows)?;
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn rows(mut self, rows: Range) -> Result<Self> {
        if self.start_partition.is_none() || self.start_partition != self.end_partition {
            return Err(Error::invalid_request(
                "a range of RowKeys needs one partition; restrict the signature to a partition first",
            ));
        }
        self.start_row = match rows.from {
            Bound::Included(text) => Some(text),
            // A SAS has no excluded ends. The next RowKey after a text is the text with the smallest character behind
            // it.
            Bound::Excluded(text) => Some(format!("{text}{FIRST}")),
            Bound::Unbounded => None,
        };
        self.end_row = match rows.to {
            Bound::Included(text) => Some(text),
            Bound::Excluded(text) => Some(last_before(&text)?),
            Bound::Unbounded => None,
        };
        Ok(self)
    }
}

impl SasRange {
    /// Returns the four fields; a missing bound is an empty field.
    ///
    /// # Errors
    /// Fails for an end at the empty key: the protocol would read it as "no end" and allow everything.
    pub(super) fn fields(&self) -> Result<[&str; 4]> {
        // An empty parameter is left out of the token, and a missing end is no end.
        if [&self.end_partition, &self.end_row].into_iter().any(|end| end.as_deref() == Some("")) {
            return Err(Error::invalid_request(
                "a signature cannot end at an empty key: the service would read it as 'no end'",
            ));
        }
        let fields = [&self.start_partition, &self.start_row, &self.end_partition, &self.end_row];
        Ok(fields.map(|field| field.as_deref().unwrap_or_default()))
    }
}

/// The smallest character of a key.
const FIRST: char = ' ';

/// Returns a text before `end`. Only texts with more than one U+FFFF at their end lie between the two.
fn last_before(end: &str) -> Result<String> {
    key_order::key_text_before(end)
        .ok_or_else(|| Error::invalid_request("no RowKey precedes the empty RowKey"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_text_before_an_end_precedes_it_and_follows_all_texts_under_the_prefix() {
        for prefix in ["a", "a/".trim_end_matches('/'), "empid_", "\u{D7FF}", "\u{10FFFF}", "@", "x\u{E000}"]
        {
            let end = key_order::prefix_end(prefix).unwrap();
            let last = last_before(&end).unwrap();
            assert!(key_order::compare(&last, &end).is_lt(), "{prefix:?}");
            for more in ["", "0", "zzz", "\u{10FFFF}"] {
                let key = format!("{prefix}{more}");
                assert!(key_order::compare(&key, &last).is_le(), "{key:?} {last:?}");
            }
        }
        assert_eq!(last_before("a ").unwrap(), "a");
        assert!(last_before("").is_err());
    }
}
