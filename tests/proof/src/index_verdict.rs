//! The check of an [`IndexModel`] after a schedule.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::model::{Entity, ValueRef};
use table_core::store::{ErrorKind, Result};

use super::final_state::{FinalState, Phase, Verdict};
use super::index_model::{INDEX, IndexModel, STRAY, VALUE, index, table};
use super::index_scene::Maintenance;
use super::scheduled_queue::run_workers;
use crate::patterns::index::{IndexState, IndexedEntities, ScrubMode};

impl IndexModel {
    /// Runs workers and sweeps. Returns the violation, if there is one.
    pub(super) fn verdict(&self) -> BoxFuture<'static, Result<Option<String>>> {
        let model = self.clone();
        Box::pin(async move { Ok(model.judge().await?.err()) })
    }

    async fn judge(&self) -> Result<Verdict> {
        let people = self.open(None, vec![index(self.scene.kind)]).await?;
        if self.scene.queued {
            run_workers(&self.messages, people.journal()).await?;
            if let Err(wrong) = self.final_state(Phase::Worked).await?.check_evidence() {
                return Ok(Err(format!("after the workers: {wrong}")));
            }
        }
        // The first sweep inserts abort rows to release reservations. The second one removes them.
        for _ in 0..2 {
            people
                .journal()
                .sweep(&[table("Late")], Duration::ZERO)
                .await?;
        }
        let final_state = self.final_state(Phase::Swept).await?;
        if let Err(wrong) = final_state
            .check_evidence()
            .and_then(|()| self.acknowledgements.check(&self.scheduler))
        {
            return Ok(Err(wrong));
        }
        self.judge_index(&people, &final_state.entities).await
    }

    async fn judge_index(&self, people: &IndexedEntities, entities: &[Entity]) -> Result<Verdict> {
        let by_itself = self.finished.load(Ordering::SeqCst) > 0;
        if let Err(wrong) = self.check_reports() {
            return Ok(Err(wrong));
        }
        if self.scene.maintenance == Maintenance::Report {
            people.scrub(INDEX, ScrubMode::Repair).await?;
        } else if self.scene.maintenance == Maintenance::Rebuild {
            people.build(INDEX)?.run().await?;
        } else if (!by_itself && !self.is_revived(entities) || self.scene.rewrites_the_same())
            && let Err(error) = self.maintain(people, 0).await
        {
            let shared = matches!(error.kind(), ErrorKind::DuplicateValues { .. });
            let excused = shared && share_a_value(entities);
            return Ok(if excused {
                Ok(())
            } else {
                Err(format!("the maintenance cannot be finished: {error}"))
            });
        }
        people.refresh().await?;
        let (state, dropped) = (
            people.state(INDEX),
            self.scene.maintenance == Maintenance::Drop,
        );
        if state
            != if dropped {
                IndexState::Absent
            } else {
                IndexState::Readable
            }
        {
            return Ok(Err(format!("the index is {state}")));
        }
        let derive = |entity: &Entity| match dropped {
            true => Ok(Vec::new()),
            false => index(self.scene.kind).entries(&table("People"), entity),
        };
        let checked = self
            .final_state(Phase::Swept)
            .await?
            .check_entries(&self.store, &table("People"), derive)
            .await?;
        Ok(checked
            .map_err(|wrong| format!("{wrong} (finished by the maintenance task: {by_itself})")))
    }

    /// Whether a writer has made the dangling entry valid. The index is then undamaged, whatever a scrub has done
    /// before it died.
    fn is_revived(&self, entities: &[Entity]) -> bool {
        let damaged = entities
            .iter()
            .find(|entity| entity.key().row() == self.scene.start[0].0);
        let value = damaged.and_then(|entity| entity.get(VALUE));
        self.scene.maintenance == Maintenance::Repair && value == Some(ValueRef::String(STRAY))
    }

    async fn final_state(&self, phase: Phase) -> Result<FinalState> {
        FinalState::read(
            &self.store,
            &table("People"),
            &["Late"],
            &self.messages,
            phase,
        )
        .await
    }

    /// Checks reports: they have the damage, unless a writer repairs it, and otherwise at most the entries that
    /// writers change.
    fn check_reports(&self) -> Verdict {
        let written = self.scene.groups.iter().flat_map(|group| *group).count();
        let untouched = self
            .scene
            .groups
            .iter()
            .flat_map(|g| *g)
            .all(|(id, _)| *id != self.scene.start[0].0);
        for report in self.reports.lock().unwrap().iter() {
            let least = usize::from(untouched);
            let found = (report.missing >= least) && report.dangling >= 1;
            if !found || report.missing > 1 + written || report.dangling > 1 + written {
                return Err(format!(
                    "one entry is missing, one is dangling, and there were {written} writes; the report says {report:?}"
                ));
            }
        }
        Ok(())
    }
}

fn share_a_value(entities: &[Entity]) -> bool {
    let mut values: Vec<_> = entities
        .iter()
        .map(|e| format!("{:?}", e.get(VALUE)))
        .collect();
    values.sort();
    values.windows(2).any(|pair| pair[0] == pair[1])
}
