use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::commit::Work;
use super::intake::{Intake, Taken};
use super::queue::{Closing, Job, Message};
use super::reopen::{self, CommitFailure};
use super::{FLUSH_AFTER, IDLE, SEPARATE_COMMITS, Writer};
use crate::guard::guarded;

impl Writer {
    /// Runs until the store is closed or all its handles are dropped.
    pub(super) fn run(mut self) {
        // Panics of the engine are caught where they occur. A panic here is a bug; readers still get an
        // error.
        let reply = guarded(|| self.serve()).unwrap_or_else(|| {
            tracing::error!("the writer panicked: the store closes");
            None
        });
        let lost = self.lost();
        let result =
            reopen::caught_work(|| self.shut_down()).map_err(|failed| failed.failure(lost));
        self.shared.close();
        if let Err(failure) = &result {
            tracing::error!(%failure, "closing the store failed");
        }
        // The directory must be unlocked when the answer arrives.
        drop(self);
        if let Some(reply) = reply {
            let _ = reply.send(result.map_err(Into::into));
        }
    }

    fn serve(&mut self) -> Option<Closing> {
        loop {
            let mut next = match self.receive() {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return None,
            };
            if next.is_none() {
                self.idle();
            }
            while let Some(message) = next.take() {
                match message {
                    Message::Change(job) => next = self.batch(job),
                    // The guard lives until the compaction is done: no backup holds a snapshot for which `take_database` would wait.
                    Message::Compact(reply, _guard) => {
                        reply.send(self.compact().map_err(Into::into));
                    }
                    Message::Watch(reply) => reply.send(Ok(self.changes.watch())),
                    Message::Pin(reply, include_engine_tables) => {
                        reply.send(self.pin(include_engine_tables).map_err(Into::into));
                    }
                    Message::Close(reply) => return Some(reply),
                }
            }
        }
    }

    fn receive(&self) -> Result<Message, RecvTimeoutError> {
        match self.next_wakeup() {
            Some(wait) => self.requests.0.recv_timeout(wait),
            None => self
                .requests
                .0
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Returns the time to wait for requests before [`idle`](Self::idle) has work.
    pub(super) fn next_wakeup(&self) -> Option<Duration> {
        // Nothing else is due while the file cannot be written.
        if let Some(wait) = self.reopening.wait(Instant::now()) {
            return Some(wait);
        }
        let flush = self
            .unflushed
            .map(|unflushed| FLUSH_AFTER.saturating_sub(unflushed.since.elapsed()));
        let prepare =
            (!self.recovery_prepared).then(|| IDLE.saturating_sub(self.last_commit.elapsed()));
        let reclaim = self.reclaiming.wait(&self.ledger.dropped, Instant::now());
        [flush, prepare, reclaim].into_iter().flatten().min()
    }

    /// Executes the queued changes as one commit: one sync for all of them. Returns a message that is not a change.
    pub(super) fn batch(&mut self, first: Job) -> Option<Message> {
        let mut bounds = self.config.group_commit;
        if self
            .separate_until
            .is_some_and(|until| Instant::now() < until)
        {
            bounds.max_transactions = 1;
        }
        let mut intake = Intake::new(first, bounds, self.last_batch);
        let done = self.commit(Work::Requests(&mut intake));
        let Taken {
            callers,
            jobs,
            other,
        } = intake.end();
        self.last_batch = jobs;
        match done {
            Ok(answers) => {
                callers
                    .into_iter()
                    .zip(answers)
                    .for_each(|(caller, answer)| caller.answer(answer));
                self.between_commits();
            }
            Err(failed) => {
                if matches!(failed, CommitFailure::Unreadable) {
                    // A change touched a damaged page. One change per commit for a while, so that only the changes that need the page fail.
                    self.separate_until = Some(Instant::now() + SEPARATE_COMMITS);
                }
                let lost = self.lost();
                callers
                    .into_iter()
                    .for_each(|caller| caller.answer(Err(failed.error(lost))));
                // The first attempt is immediate.
                let _ = self.ensure_writable();
            }
        }
        other
    }
}
