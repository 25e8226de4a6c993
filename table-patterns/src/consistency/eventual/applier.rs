//! Doing the steps of a claimed transaction.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use table_core::store::{Error, Result};
use tokio::time::timeout;

use super::coordinator::Coordinator;
use super::event::What;
use super::head::{Head, State};
use super::plan::EventualTransaction;
use super::resources::StepId;
use super::stopped::{Recorded, Stopped};
use super::submit::Progress;
use crate::journal::Lease;

/// The right to apply one transaction.
struct Applier<'a> {
    of: &'a Coordinator,
    head: Head,
    lease: Lease,
}

impl Coordinator {
    /// Does what is left of a transaction whose head this process has claimed. *Pending* where it lost the
    /// claim, or an answer is in doubt.
    ///
    /// # Errors
    /// A step failed, and the claim was given back.
    pub(super) async fn apply(
        &self,
        transaction: &EventualTransaction,
        head: Head,
        lease: Lease,
    ) -> Result<Progress, Stopped> {
        self.tell(head.id, What::Claimed { step: head.next });
        Applier { of: self, head, lease }.run(transaction).await
    }

    /// The failure of a transaction whose claimed plan cannot be read: as of its next step.
    pub(super) async fn unread(&self, head: Head, lease: Lease, error: Error) -> Stopped {
        Applier { of: self, head, lease }.failed(error.into()).await
    }
}

impl Applier<'_> {
    async fn run(mut self, transaction: &EventualTransaction) -> Result<Progress, Stopped> {
        while let Some(step) = transaction.steps().get(self.head.next) {
            if let Err(error) = step.check_here(&self.of.resources) {
                return Err(self.failed(Stopped { error, counts: false, recorded: None }).await);
            }
            let id = StepId { transaction: self.head.id, step: self.head.next };
            let (of, work) = (self.of, self.of.run_step(id, step));
            match self.keeping(work).await {
                None => return Ok(Progress::Pending),
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(self.failed(Stopped::at(step, error)).await),
            }
            let done = What::Done { step: self.head.next, steps: self.head.steps };
            if !self.advance().await? {
                return Ok(Progress::Pending);
            }
            of.tell(self.head.id, done);
        }
        self.of.tell(self.head.id, What::Applied);
        self.of.ledger.remove_pieces(self.head.plan_of()).await?;
        Ok(Progress::Applied)
    }

    /// Records a step as done; whether the claim still holds.
    async fn advance(&mut self) -> Result<bool> {
        let next = self.head.next + 1;
        let state = if next == self.head.steps { State::Applied } else { State::Running };
        self.renew(Head { next, state, error: None, failures: 0, ..self.head.clone() }).await
    }

    /// Writes the head, which renews the claim; whether it still holds.
    async fn renew(&mut self, head: Head) -> Result<bool> {
        let lease = Lease::start(self.of.timing);
        let Some(head) = self.of.ledger.replace(head).await? else { return Ok(false) };
        (self.head, self.lease) = (head, lease);
        Ok(true)
    }

    /// Does work while the claim holds, and renews the claim in time. `None` where it is lost: the work is
    /// dropped then. It is never polled after the lease: what it sends could take effect too late.
    async fn keeping<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            let lease = self.lease;
            let guarded = poll_fn(|context| match lease.may_send() {
                true => work.as_mut().poll(context).map(Some),
                false => Poll::Ready(None),
            });
            if let Ok(done) = timeout(self.of.timing.lease() / 4, guarded).await {
                return done;
            }
            if !self.renew(self.head.clone()).await.unwrap_or(false) {
                return None;
            }
        }
    }

    /// Gives the claim back, so that the step can be tried again at once; not where it may still take
    /// effect. What waiting does not mend is counted there, and nowhere else: that a message was received often says
    /// that workers died, or that answers of the queue were lost.
    async fn failed(mut self, stopped: Stopped) -> Stopped {
        let Stopped { error, counts, .. } = stopped;
        let what = What::Failed { step: self.head.next, error: error.clone() };
        self.of.tell(self.head.id, what);
        let mut head = self.head.clone();
        head.blame(&error);
        head.failures += u32::from(counts);
        if !error.is_ambiguous() {
            head.claim = None;
        }
        let poisoned = counts && head.failures >= self.of.attempts;
        if poisoned {
            head.state = State::Poisoned;
        }
        let recorded = match (self.renew(head).await, poisoned) {
            (Ok(true), true) => {
                self.of.tell(self.head.id, What::Poisoned { step: self.head.next });
                Some(Recorded::Poisoned)
            }
            (Ok(true), false) => Some(Recorded::Failed(self.head.failures)),
            (Ok(false), _) => None,
            (Err(unrecorded), _) => {
                tracing::debug!(error = %unrecorded, "the failure of a step was not recorded");
                None
            }
        };
        Stopped { error, counts, recorded }
    }
}
