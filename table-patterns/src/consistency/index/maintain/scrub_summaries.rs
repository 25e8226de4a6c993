//! Builds and scrubs summaries. A sum cannot simply be written again, because the second write would add twice;
//! it is recounted. A round reads the summary rows, then the entities, then the summary rows again. A row that
//! is the same in both reads is compared and corrected under its ETag. Any other row is recounted in the next
//! round.

use std::collections::{BTreeMap, BTreeSet};

use table_core::model::{Entity, Key, PartitionKey, SYSTEM_PREFIX};
use table_core::query::{Filter, Query, Select};
use table_core::store::{Error, GroupTransaction, KeyOrder, Operation, Result, TableStoreExt as _};

use super::scrub::{ScrubMode, ScrubReport};
use crate::entry::shared::{Summary, put, unchanged};
use crate::entry::{Entry, Index};
use crate::index::handle::IndexedEntities;
use crate::index::read::entries::is_entity;

/// Rounds in which a partition is recounted because writers changed its summaries.
const ROUNDS: usize = 20;

type Rows = BTreeMap<Key, Entity>;

impl IndexedEntities {
    /// Recounts the partition after `after`; its PartitionKey, or `None` after the last partition.
    pub(crate) async fn total_next(
        &self,
        index: &Index,
        mode: ScrubMode,
        after: Option<&str>,
        report: &mut ScrubReport,
    ) -> Result<Option<String>> {
        let Some(partition) = self.partition_after(after).await? else { return Ok(None) };
        self.total(index, mode, &partition, report).await?;
        Ok(Some(partition))
    }

    /// The lowest partition after another that is not a system partition.
    async fn partition_after(&self, after: Option<&str>) -> Result<Option<String>> {
        let beyond = |key: &str| Filter::gt(Filter::PARTITION_KEY, key);
        let mut query = Query::new().with_select(Select::new::<&str>([]));
        if let Some(after) = after {
            query = query.with_filter(beyond(after));
        }
        let sorted = self.store().profile().order == KeyOrder::Sorted;
        let (mut least, mut from): (Option<PartitionKey>, _) = (None, None);
        loop {
            let page_query = if sorted { query.clone().with_top(1) } else { query.clone() };
            let page = self.store().query(self.table(), &page_query, from.as_ref()).await?;
            for key in page.items.iter().map(Entity::key) {
                if key.partition().starts_with(SYSTEM_PREFIX) {
                    if sorted {
                        // The system partitions are contiguous: continue after them.
                        query = Query::new()
                            .with_select(Select::new::<&str>([]))
                            .with_filter(beyond(&format!("{SYSTEM_PREFIX}\u{FFFD}")));
                    }
                    continue;
                }
                let key = key.partition_key();
                if least.as_ref().is_none_or(|least| key < *least) {
                    least = Some(key);
                }
            }
            let skipped = sorted && least.is_none() && !page.items.is_empty();
            from = if skipped { None } else { page.continuation };
            if (sorted && least.is_some()) || (from.is_none() && !skipped) {
                return Ok(least.map(|key| key.to_string()));
            }
        }
    }

    async fn total(
        &self,
        index: &Index,
        mode: ScrubMode,
        partition: &str,
        report: &mut ScrubReport,
    ) -> Result<()> {
        let mut settled = BTreeSet::new();
        for round in 0..ROUNDS {
            let before = self.summary_rows(index, partition).await?;
            let (entities, wanted) = self.count(index, partition).await?;
            let after = self.summary_rows(index, partition).await?;
            if round == 0 {
                report.entities += entities;
                report.entries += before.len();
            }
            let mut open = false;
            let mut corrections = Vec::new();
            let keys: BTreeSet<_> = before.keys().chain(after.keys()).chain(wanted.keys()).collect();
            for key in keys.into_iter().filter(|key| !settled.contains(*key)).cloned().collect::<Vec<_>>() {
                let etag = |rows: &Rows| rows.get(&key).and_then(|row| row.etag().cloned());
                if etag(&before) != etag(&after) {
                    open = true;
                    continue;
                }
                match correction(index, &key, after.get(&key), wanted.get(&key))? {
                    None => drop(settled.insert(key)),
                    Some((_, was_there)) if mode == ScrubMode::Report => {
                        report.dangling += usize::from(was_there && !wanted.contains_key(&key));
                        report.missing += usize::from(wanted.contains_key(&key));
                        settled.insert(key);
                    }
                    Some((operation, was_there)) => {
                        // An absent row has no ETag: a writer may have added and removed it between the two reads.
                        open |= !was_there;
                        corrections.push((operation, was_there, wanted.contains_key(&key)));
                    }
                }
            }
            open |= self.correct(index, partition, corrections, &mut settled, report).await?;
            if !open {
                return Ok(());
            }
        }
        Err(Error::invalid_request(format!(
            "the summaries of the partition '{partition}' changed in each of {ROUNDS} recounts: pause the writers of the partition, or try again"
        )))
    }

    async fn summary_rows(&self, index: &Index, partition: &str) -> Result<Rows> {
        let filter = Filter::eq(Filter::PARTITION_KEY, partition).and(Filter::eq(Entry::INDEX, index.id()));
        let rows = self.store().query_all(self.table(), &Query::new().with_filter(filter)).await?;
        Ok(rows.into_iter().map(|row| (row.key().clone(), row)).collect())
    }

    /// The entities of a partition, and the summaries that they should have.
    async fn count(&self, index: &Index, partition: &str) -> Result<(usize, BTreeMap<Key, Summary>)> {
        let query = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, partition));
        let (mut entities, mut wanted, mut from) = (0, BTreeMap::<Key, Summary>::new(), None);
        loop {
            let page = self.store().query(self.table(), &query, from.as_ref()).await?;
            for entity in page.items.iter().filter(|row| is_entity(row)) {
                entities += 1;
                for entry in index.entries(self.table(), entity)? {
                    let one = Summary::read(entity.key(), &entry.properties)?;
                    wanted.entry(entry.location.key).or_default().add(&one, 1)?;
                }
            }
            from = page.continuation;
            if from.is_none() {
                return Ok((entities, wanted));
            }
        }
    }

    /// Sends corrections in groups; whether one of them conflicted with another writer.
    async fn correct(
        &self,
        index: &Index,
        partition: &str,
        mut corrections: Vec<(Operation, bool, bool)>,
        settled: &mut BTreeSet<Key>,
        report: &mut ScrubReport,
    ) -> Result<bool> {
        let mut open = false;
        while !corrections.is_empty() {
            let mut group = GroupTransaction::new(PartitionKey::new(partition)?, self.store().profile());
            for (operation, ..) in &corrections {
                if !group.fits(operation) {
                    break;
                }
                group.push(operation.clone())?;
            }
            let taken = group.len();
            let sent = self.store().transact(self.table(), group);
            match self.while_states_valid(|| self.check_complete(index), sent).await {
                Ok(_) => {
                    for (operation, was_there, is_wanted) in corrections.drain(..taken) {
                        if was_there {
                            settled.insert(operation.key().clone());
                        }
                        report.missing += usize::from(is_wanted && was_there);
                        report.dangling += usize::from(!is_wanted);
                    }
                }
                Err(error) if error.is_conflict() => {
                    let Some(failed) = error.failed_index() else { return Err(error) };
                    drop(corrections.remove(failed));
                    open = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }
}

/// The operation that corrects a row, and whether the row exists. A missing row is inserted with zeros: from
/// then on its ETag shows whether writers change it.
fn correction(
    index: &Index,
    key: &Key,
    row: Option<&Entity>,
    wanted: Option<&Summary>,
) -> Result<Option<(Operation, bool)>> {
    let Some(row) = row else {
        let zero = Summary::default().to_row(key.clone(), index.id());
        return Ok(wanted.map(|_| (put(zero, None), false)));
    };
    let etag = unchanged(row);
    let Some(wanted) = wanted else {
        return Ok(Some((Operation::Delete(key.clone(), etag), true)));
    };
    let right = Summary::read(key, row.properties()).is_ok_and(|found| found == *wanted);
    Ok((!right).then(|| (put(wanted.to_row(key.clone(), index.id()), Some(etag)), true)))
}
