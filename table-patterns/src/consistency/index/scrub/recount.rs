//! Builds and scrubs summaries. A sum cannot simply be written again, because the second write would add twice;
//! it is recounted. A round reads the summary rows, then the entities, then the summary rows again. A row that
//! is the same in both reads is compared and corrected under its ETag. Any other row is recounted in the next
//! round.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt as _;
use table_core::model::{Entity, Key, PartitionKey};
use table_core::query::{Filter, Query};
use table_core::store::{Error, GroupTransaction, Operation, Result, TableStoreExt as _};

use super::report::{ScrubMode, ScrubReport, check_complete};
use crate::entry::shared::{Summary, put};
use crate::entry::{Entry, Index};
use crate::index::rows::IndexedRows;
use crate::index::states::set::IndexSet;
use crate::journal::Timing;

/// Rounds in which a partition is recounted because writers changed its summaries.
const ROUNDS: usize = 20;

type Rows = BTreeMap<Key, Entity>;

/// Counts the entities of an index of summaries again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recount<'a> {
    pub(crate) rows: IndexedRows<'a>,
    pub(crate) set: &'a IndexSet,
    pub(crate) timing: Timing,
    pub(crate) index: &'a Index,
    pub(crate) mode: ScrubMode,
}

impl Recount<'_> {
    /// Recounts the partition after `after`; its PartitionKey, or `None` after the last partition.
    pub(crate) async fn next(
        &self,
        after: Option<&str>,
        report: &mut ScrubReport,
    ) -> Result<Option<String>> {
        let Some(partition) = self.rows.entities().partition_after(after).await? else {
            return Ok(None);
        };
        self.recount(&partition, report).await?;
        Ok(Some(partition))
    }

    /// Counts a partition in rounds, until every summary of it was the same before and after a count.
    async fn recount(&self, partition: &str, report: &mut ScrubReport) -> Result<()> {
        let mut settled = BTreeSet::new();
        for round in 0..ROUNDS {
            let before = self.summary_rows(partition).await?;
            let (entities, wanted) = count(self.rows, self.index, partition).await?;
            let after = self.summary_rows(partition).await?;
            if round == 0 {
                report.entities += entities;
                report.entries += before.len();
            }
            let mut open = false;
            let mut corrections = Vec::new();
            let keys: BTreeSet<_> = before
                .keys()
                .chain(after.keys())
                .chain(wanted.keys())
                .collect();
            for key in keys
                .into_iter()
                .filter(|key| !settled.contains(*key))
                .cloned()
                .collect::<Vec<_>>()
            {
                let etag = |rows: &Rows| rows.get(&key).and_then(|row| row.etag().cloned());
                if etag(&before) != etag(&after) {
                    open = true;
                    continue;
                }
                match correction(self.index, &key, after.get(&key), wanted.get(&key))? {
                    None => drop(settled.insert(key)),
                    Some(Correction {
                        was_there,
                        is_wanted,
                        ..
                    }) if self.mode == ScrubMode::Report => {
                        report.dangling += usize::from(was_there && !is_wanted);
                        report.missing += usize::from(is_wanted);
                        settled.insert(key);
                    }
                    Some(correction) => {
                        // An absent row has no ETag: a writer may have added and removed it between the two reads.
                        open |= !correction.was_there;
                        corrections.push(correction);
                    }
                }
            }
            open |= self
                .correct(partition, corrections, &mut settled, report)
                .await?;
            if !open {
                return Ok(());
            }
        }
        Err(Error::wrong_state(format!(
            "the summaries of the partition '{partition}' changed in each of {ROUNDS} recounts: pause the writers of the partition, or try again"
        )))
    }

    /// Reads the summaries of a partition. 1 request per page.
    async fn summary_rows(&self, partition: &str) -> Result<Rows> {
        let of_index = Filter::eq(Entry::INDEX, self.index.id());
        let filter = Filter::eq(Filter::PARTITION_KEY, partition).and(of_index);
        let rows = self
            .rows
            .store
            .query_all(self.rows.table, &Query::new().with_filter(filter))
            .await?;
        Ok(rows
            .into_iter()
            .map(|row| (row.key().clone(), row))
            .collect())
    }

    /// Sends corrections in groups; whether one of them conflicted with another writer.
    async fn correct(
        &self,
        partition: &str,
        mut corrections: Vec<Correction>,
        settled: &mut BTreeSet<Key>,
        report: &mut ScrubReport,
    ) -> Result<bool> {
        let mut open = false;
        while !corrections.is_empty() {
            let mut group =
                GroupTransaction::new(PartitionKey::new(partition)?, self.rows.store.profile());
            for correction in &corrections {
                if !group.fits(&correction.operation) {
                    break;
                }
                group.push(correction.operation.clone())?;
            }
            let taken = group.len();
            let sent = self.rows.store.transact(self.rows.table, group);
            let check = || check_complete(self.set, self.index);
            match self.set.while_valid(self.timing, check, sent).await {
                Ok(_) => {
                    for correction in corrections.drain(..taken) {
                        let Correction {
                            was_there,
                            is_wanted,
                            ..
                        } = correction;
                        report.missing += usize::from(is_wanted && was_there);
                        report.dangling += usize::from(!is_wanted);
                        // A row that was just inserted with zeros is counted in the next round.
                        if was_there {
                            settled.insert(correction.operation.key().clone());
                        }
                    }
                }
                Err(error) if error.is_conflict() => {
                    let Some(failed) = error.failed_index() else {
                        return Err(error);
                    };
                    drop(corrections.remove(failed));
                    open = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }
}

/// The operation that corrects the row of a summary.
struct Correction {
    operation: Operation,
    was_there: bool,
    /// Whether the entities have this summary.
    is_wanted: bool,
}

/// The correction of a row; `None` if the row is right. A missing row is inserted with zeros: from then on its ETag shows whether
/// writers change it.
///
/// # Errors
/// The row was read without an ETag.
fn correction(
    index: &Index,
    key: &Key,
    row: Option<&Entity>,
    wanted: Option<&Summary>,
) -> Result<Option<Correction>> {
    let (was_there, is_wanted) = (row.is_some(), wanted.is_some());
    let operation = match (row, wanted) {
        (None, None) => return Ok(None),
        (None, Some(_)) => put(Summary::default().to_row(key.clone(), index.id()), None),
        (Some(row), None) => Operation::Delete(key.clone(), row.version()?),
        (Some(row), Some(wanted)) => {
            if Summary::read(key, row.properties()).is_ok_and(|found| found.agrees_with(wanted)) {
                return Ok(None);
            }
            put(wanted.to_row(key.clone(), index.id()), Some(row.version()?))
        }
    };
    Ok(Some(Correction {
        operation,
        was_there,
        is_wanted,
    }))
}

/// The entities of a partition, and the summaries that they should have.
pub(crate) async fn count(
    rows: IndexedRows<'_>,
    index: &Index,
    partition: &str,
) -> Result<(usize, BTreeMap<Key, Summary>)> {
    let (mut entities, mut wanted) = (0, BTreeMap::<Key, Summary>::new());
    let partition = Filter::eq(Filter::PARTITION_KEY, partition);
    let mut found = rows.entities().in_range(partition);
    while let Some(entity) = found.try_next().await? {
        entities += 1;
        for entry in index.entries(rows.table, &entity)? {
            let one = Summary::read(entity.key(), &entry.properties)?;
            wanted.entry(entry.location.key).or_default().add(&one, 1)?;
        }
    }
    Ok((entities, wanted))
}
