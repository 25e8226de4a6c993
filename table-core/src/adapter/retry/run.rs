use uuid::Uuid;

use super::Retrying;
use super::attempts::Attempts;
use super::conclusion::{Conclusion, judge, projection};
use super::job::{Job, Repeat};
use super::write_id::attach;
use crate::model::{Entity, Key, TableName};
use crate::store::{Error, OperationKind, Outcome, Result, TableStore, Written};

/// The action after a failed attempt of a write that may have been applied.
enum Next {
    Answer(Vec<Written>),
    Repeat,
    GiveUp,
}

impl<S: TableStore> Retrying<S> {
    /// Repeats a read until it succeeds. This is safe because a read changes nothing.
    pub(super) async fn read<T, F>(&self, kind: OperationKind, request: impl Fn() -> F + Send) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
    {
        let mut attempts = self.attempts(kind);
        loop {
            match attempts.run(kind.is_read(), request()).await {
                Err(failure) if failure.is_transient() && attempts.another(&failure).await => {}
                answer => return answer,
            }
        }
    }

    /// Sends a write until its outcome is certain or no further attempt is allowed.
    pub(super) async fn change(&self, table: &TableName, mut job: Job) -> Result<Vec<Written>> {
        let id = self.caller_profile().map(|profile| attach(&mut job, profile)).transpose()?;
        let mut attempts = self.attempts(job.kind());
        // The first ambiguous error. From then on an earlier attempt may have been applied.
        let mut doubt: Option<Error> = None;
        loop {
            let failure = match attempts.run(false, job.send(self.inner(), table)).await {
                // An error after the write was applied, for example an answer without an ETag, must not lead to a
                // second effect.
                Err(failure) if failure.outcome() != Outcome::Applied => failure,
                answer => return answer,
            };
            if doubt.is_none() && failure.is_ambiguous() {
                doubt = Some(failure.clone());
            }
            let Some(first) = &doubt else {
                if failure.is_transient() && attempts.another(&failure).await {
                    continue;
                }
                return Err(failure);
            };
            match self.resolve(&mut attempts, table, &job, id, &failure).await {
                Next::Answer(written) => return Ok(written),
                Next::Repeat => {}
                Next::GiveUp => return Err(in_doubt(first.clone(), failure)),
            }
        }
    }

    /// Decides how to continue with a write of which some attempt may have been applied, or may still take
    /// effect.
    async fn resolve(
        &self,
        attempts: &mut Attempts<'_>,
        table: &TableName,
        job: &Job,
        id: Option<Uuid>,
        failure: &Error,
    ) -> Next {
        match id {
            // Without an id, an entity at this key could be ours or that of another writer, and no entity could mean
            // that ours was deleted again.
            None if job.repeat() == Repeat::Insert => return Next::GiveUp,
            None => {}
            Some(id) => match self.look(attempts, table, job, id).await {
                Ok(Conclusion::Applied(written)) => return Next::Answer(written),
                Ok(Conclusion::NotSeen) => {}
                Ok(Conclusion::Undecided) | Err(_) => return Next::GiveUp,
            },
        }
        // Any other failure is an answer to this attempt, such as a failed condition. It may be the effect of an
        // earlier attempt, so it is not the answer to the caller, and repeating it would not change it.
        let may_pass = failure.is_ambiguous() || failure.is_transient();
        if may_pass && attempts.another(failure).await { Next::Repeat } else { Next::GiveUp }
    }

    /// Reads the entities that the write would have written.
    async fn look(
        &self,
        attempts: &mut Attempts<'_>,
        table: &TableName,
        job: &Job,
        id: Uuid,
    ) -> Result<Conclusion> {
        let mut found = Vec::with_capacity(job.operations().len());
        for operation in job.operations() {
            found.push(match operation.entity() {
                Some(entity) => self.find(attempts, table, entity.key()).await?,
                None => None,
            });
        }
        Ok(judge(job, &found, id, self.policy().absent_insert))
    }

    /// Reads the write id of a stored entity. A failed read counts as an attempt.
    async fn find(
        &self,
        attempts: &mut Attempts<'_>,
        table: &TableName,
        key: &Key,
    ) -> Result<Option<Entity>> {
        let select = projection();
        loop {
            match attempts.run(true, self.inner().get(table, key, Some(&select))).await {
                Err(failure) if failure.is_transient() && attempts.another(&failure).await => {}
                answer => return answer,
            }
        }
    }
}

/// Returns the error of the first ambiguous attempt. A later error, even a conflict, proves nothing about
/// that attempt: our own effect may have caused the conflict.
pub(in crate::adapter) fn in_doubt(first: Error, later: Error) -> Error {
    if later.is_ambiguous() { first } else { first.with_source(later) }
}
