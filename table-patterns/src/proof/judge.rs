//! What must hold of a [`Shelf`] when everything has come to rest.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::model::{Entity, ValueRef};
use table_core::store::{ErrorKind, Result};
use tokio::time::sleep;

use super::library::Keeping;
use super::queue::StagedQueue;
use super::rest::{Phase, Rest, Verdict};
use super::shelf::{INDEX, STRAY, Shelf, VALUE, index, table};
use super::world::LEASE;
use crate::index::{IndexState, IndexedEntities, ScrubMode};
use crate::journal::Recovery;

impl Shelf {
    /// Lets others finish what is left, and says what is wrong then.
    pub(super) fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let shelf = self.clone();
        Box::pin(async move { Ok(shelf.judge().await?.err()) })
    }

    async fn judge(&self) -> Result<Verdict> {
        let people = self.open(None, vec![index(self.of.kind)]).await?;
        if self.of.queued {
            self.work(&people).await?;
            if let Err(wrong) = self.rest(Phase::Worked).await?.check_evidence() {
                return Ok(Err(format!("after the workers: {wrong}")));
            }
        }
        // The second removes the abort rows that the first put in the way of reservations.
        for _ in 0..2 {
            people.journal().sweep(&[table("Late")], Duration::ZERO).await?;
        }
        let rest = self.rest(Phase::Swept).await?;
        if let Err(wrong) = rest.check_evidence().and_then(|()| self.told.check(&self.stage)) {
            return Ok(Err(wrong));
        }
        self.judge_index(&people, &rest.entities).await
    }

    async fn judge_index(&self, people: &IndexedEntities, entities: &[Entity]) -> Result<Verdict> {
        let by_itself = self.kept.load(Ordering::SeqCst) > 0;
        if let Err(wrong) = self.check_reports() {
            return Ok(Err(wrong));
        }
        if self.of.keeping == Keeping::Report {
            people.scrub(INDEX, ScrubMode::Repair).await?;
        } else if self.of.keeping == Keeping::Rebuild {
            people.build(INDEX)?.run().await?;
        } else if (!by_itself && !self.is_revived(entities) || self.of.rewrites_the_same())
            && let Err(error) = self.keep(people, 0).await
        {
            let shared = matches!(error.kind(), ErrorKind::DuplicateValues { .. });
            let excused = shared && share_a_value(entities);
            return Ok(if excused { Ok(()) } else { Err(format!("it cannot be finished: {error}")) });
        }
        people.refresh().await?;
        let (state, dropped) = (people.state(INDEX), self.of.keeping == Keeping::Drop);
        if state != if dropped { IndexState::Absent } else { IndexState::Readable } {
            return Ok(Err(format!("the index is {state}")));
        }
        let derive = |entity: &Entity| match dropped {
            true => Ok(Vec::new()),
            false => index(self.of.kind).entries(&table("People"), entity),
        };
        let checked =
            self.rest(Phase::Swept).await?.check_entries(&self.store, &table("People"), derive).await?;
        Ok(checked.map_err(|wrong| format!("{wrong} (finished by itself: {by_itself})")))
    }

    /// Whether a writer has made an entry right that was one too many, and so undone all damage: whatever a
    /// scrubber did that died, nothing is wrong then.
    fn is_revived(&self, entities: &[Entity]) -> bool {
        let damaged = entities.iter().find(|entity| entity.key().row() == self.of.start[0].0);
        let value = damaged.and_then(|entity| entity.get(VALUE));
        self.of.keeping == Keeping::Repair && value == Some(ValueRef::String(STRAY))
    }

    async fn rest(&self, phase: Phase) -> Result<Rest> {
        Rest::read(&self.store, &table("People"), &["Late"], &self.messages, phase).await
    }

    async fn work(&self, people: &IndexedEntities) -> Result<()> {
        let queue = StagedQueue::new(self.messages.clone(), None, usize::MAX, true);
        for _ in 0..12 {
            if self.messages.len() == 0 {
                break;
            }
            sleep(LEASE * 3).await;
            Recovery::new(&queue, vec![people.journal()]).run_once(32).await?;
        }
        Ok(())
    }

    /// A report finds what is damaged and nobody writes, and beside it only what is being written.
    fn check_reports(&self) -> Verdict {
        let written = self.of.groups.iter().flat_map(|group| *group).count();
        let untouched = self.of.groups.iter().flat_map(|g| *g).all(|(id, _)| *id != self.of.start[0].0);
        for report in self.reports.lock().unwrap().iter() {
            let least = usize::from(untouched);
            let found = (report.missing >= least) && report.dangling >= 1;
            if !found || report.missing > 1 + written || report.dangling > 1 + written {
                return Err(format!("of one entry lost and one too many, with {written} writes: {report:?}"));
            }
        }
        Ok(())
    }
}

fn share_a_value(entities: &[Entity]) -> bool {
    let mut values: Vec<_> = entities.iter().map(|e| format!("{:?}", e.get(VALUE))).collect();
    values.sort();
    values.windows(2).any(|pair| pair[0] == pair[1])
}
