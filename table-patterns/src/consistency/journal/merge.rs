//! Remote rows that hold the entries of several entities.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{PartitionKey, TableName};
use table_core::store::{GroupTransaction, Operation, Result};
use tokio::time::sleep;

use super::Journal;
use crate::entry::shared::{Merge, Prepared, contended};
use crate::rows::took_effect::took_effect;

/// Attempts with a row that other writers change.
const ROUNDS: u32 = 30;

impl Journal {
    /// Applies the change of one shared row. Asks `may_send` before each write. 2 requests, repeated after conflicts.
    pub(super) async fn merge(&self, merge: &Merge, may_send: impl Fn() -> bool + Send) -> Result<bool> {
        for round in 0..ROUNDS {
            let prepared = self.shared().prepare(merge).await?;
            if prepared.operations.is_empty() {
                return Ok(true);
            }
            if !may_send() {
                self.shared().refused([prepared]).await;
                return Ok(false);
            }
            if self.shared().send(&merge.at, prepared).await? {
                return Ok(true);
            }
            sleep(pause(round)).await;
        }
        Err(contended(&merge.at))
    }

    /// Applies the changes of shared rows of one partition, as many in a group as fit. Returns whether all were sent;
    /// the others stay in `merges`.
    pub(crate) async fn merge_while(
        &self,
        to: &(TableName, PartitionKey),
        merges: &mut Vec<Merge>,
        mut may_send: impl FnMut() -> bool + Send,
    ) -> Result<bool> {
        let mut failures = 0;
        while !merges.is_empty() {
            let some = merges.len().min(self.store().profile().group_operations);
            let rows = self.shared();
            // Collected first: with a closure over borrowed merges in the stream, the future would not be `Send`.
            let reads: Vec<_> = merges[..some].iter().map(|merge| rows.prepare(merge)).collect();
            let prepared: Vec<_> = stream::iter(reads).buffered(self.concurrency).try_collect().await?;
            let (group, taken, left) = self.first_merges(&to.1, prepared)?;
            self.shared().refused(left).await;
            if !group.is_empty() && !may_send() {
                self.shared().refused(taken).await;
                return Ok(false);
            }
            let count = taken.len();
            if self.send_merges(&to.0, group, taken).await? {
                drop(merges.drain(..count));
                failures = 0;
                continue;
            }
            failures += 1;
            if failures > ROUNDS {
                return Err(contended(&merges[0].at));
            }
            sleep(pause(failures)).await;
        }
        Ok(true)
    }

    /// The changes that fit into one group, and the remaining ones.
    fn first_merges(
        &self,
        partition: &PartitionKey,
        prepared: Vec<Prepared>,
    ) -> Result<(GroupTransaction, Vec<Prepared>, Vec<Prepared>)> {
        let mut group = GroupTransaction::new(partition.clone(), self.store().profile());
        let (mut taken, mut left) = (Vec::new(), prepared.into_iter());
        for prepared in left.by_ref() {
            let mut longer = group.clone();
            let fits = prepared.operations.iter().try_for_each(|o| longer.push(Operation::clone(o)));
            match fits {
                Ok(()) => (group, _) = (longer, taken.push(prepared)),
                Err(error) if taken.is_empty() => return Err(error),
                Err(_) => {
                    let left = std::iter::once(prepared).chain(left).collect();
                    return Ok((group, taken, left));
                }
            }
        }
        Ok((group, taken, Vec::new()))
    }

    async fn send_merges(
        &self,
        table: &TableName,
        group: GroupTransaction,
        taken: Vec<Prepared>,
    ) -> Result<bool> {
        let sent = if group.is_empty() { Ok(Vec::new()) } else { self.store().transact(table, group).await };
        match took_effect(sent) {
            Ok(_) => self.shared().applied(taken).await,
            Err(error) if error.is_ambiguous() => return Err(error),
            Err(error) => {
                self.shared().refused(taken).await;
                return if error.is_conflict() { Ok(false) } else { Err(error) };
            }
        }
        Ok(true)
    }
}

/// The pause before the next attempt, with jitter.
pub(super) fn pause(round: u32) -> Duration {
    Duration::from_millis(5).mul_f64(f64::from(1 << round.min(4)) * fastrand::f64())
}
