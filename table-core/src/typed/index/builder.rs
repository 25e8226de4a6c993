use std::ops::Bound;

use super::IndexEntries;
use crate::model::{KeyBuilder, KeyPart, PartFormat, PartitionKey, key_order};
use crate::query::Range;
use crate::store::Result;

/// What the steps of a derived index lookup share: the entries so far, or the first error.
#[derive(Clone, Debug)]
pub struct EntriesBuilder {
    index: &'static str,
    partition: Result<PartitionKey>,
    rows: Result<Rows>,
}

#[derive(Clone, Debug)]
enum Rows {
    /// Those that start so.
    Start(KeyBuilder),
    /// Those.
    In(Range),
}

impl EntriesBuilder {
    /// All entries in a partition of an index.
    pub fn new(index: &'static str, partition: Result<String>, template: &'static str) -> Self {
        let rows = Ok(Rows::Start(KeyBuilder::new("RowKey", template)));
        Self { index, partition: partition.and_then(PartitionKey::new), rows }
    }

    /// Appends text of the template.
    #[must_use]
    pub fn literal(self, text: &str) -> Self {
        self.then(|key| Ok(Rows::Start(key.literal(text))))
    }

    /// Appends a whole part.
    #[must_use]
    pub fn part<P: KeyPart>(self, name: &str, value: &P, format: PartFormat) -> Self {
        self.then(|key| key.part(name, value, format).map(Rows::Start))
    }

    /// Appends the start of a text part: the last step.
    #[must_use]
    pub fn starting(self, prefix: &str, format: PartFormat) -> Self {
        self.then(|key| Ok(Rows::In(under(&key.text_prefix(prefix, format).finish()))))
    }

    /// Appends a range of a part: the last step. `ends` says whether the key ends with the part.
    #[must_use]
    pub fn range<P: KeyPart>(
        self,
        name: &str,
        (from, to): (Bound<P>, Bound<P>),
        format: PartFormat,
        ends: bool,
    ) -> Self {
        self.then(|key| {
            let text = |value: P| key.clone().part(name, &value, format).map(KeyBuilder::finish);
            let all = under(&key.clone().finish());
            let from = match from {
                Bound::Unbounded => all.from,
                Bound::Included(value) => Bound::Included(text(value)?),
                Bound::Excluded(value) if ends => Bound::Excluded(text(value)?),
                Bound::Excluded(value) => after(under(&text(value)?)),
            };
            let to = match to {
                Bound::Unbounded => all.to,
                Bound::Excluded(value) => Bound::Excluded(text(value)?),
                Bound::Included(value) if ends => Bound::Included(text(value)?),
                Bound::Included(value) => under(&text(value)?).to,
            };
            Ok(Rows::In(Range { from, to }))
        })
    }

    /// The key is whole: one row.
    #[must_use]
    pub fn whole(self) -> Self {
        self.then(|key| Ok(Rows::In(Range::single(&key.finish()))))
    }

    /// The entries.
    ///
    /// # Errors
    /// A part could not be encoded.
    pub fn finish<T>(self) -> Result<IndexEntries<T>> {
        let rows = match self.rows? {
            Rows::Start(key) => under(&key.finish()),
            Rows::In(range) => range,
        };
        Ok(IndexEntries::new(self.index, self.partition?, rows))
    }

    fn then(self, step: impl FnOnce(KeyBuilder) -> Result<Rows>) -> Self {
        let rows = self.rows.and_then(|rows| match rows {
            Rows::Start(key) => step(key),
            done @ Rows::In(_) => Ok(done),
        });
        Self { rows, ..self }
    }
}

/// All texts that start with this one.
fn under(text: &str) -> Range {
    if text.is_empty() {
        return Range::ALL;
    }
    let to = key_order::prefix_end(text).map_or(Bound::Unbounded, Bound::Excluded);
    Range { from: Bound::Included(text.to_owned()), to }
}

/// The start of what comes after a range.
fn after(range: Range) -> Bound<String> {
    match (range.from, range.to) {
        (_, Bound::Excluded(end)) => Bound::Included(end),
        (start, _) => start,
    }
}
