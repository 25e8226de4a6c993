use std::time::{Duration, Instant};

use super::MAX_LINGER;
use super::queue::{Caller, Job, Message, Request, Requests};
use crate::options::GroupCommit;

/// The jobs of one commit, taken from the queue while the commit's transaction is open.
///
/// Each job is executed as soon as it is taken, so callers prepare the next jobs at the same time. The caller of each job that was
/// taken is kept until the commit has ended.
#[derive(Debug)]
pub(super) struct Intake {
    bounds: GroupCommit,
    /// The job that began the commit, until it is taken.
    first: Option<Job>,
    /// Number of jobs that are worth waiting for.
    expected: usize,
    /// How much longer the commit may wait for jobs.
    patience: Duration,
    /// Number of jobs that were taken, with those whose callers stopped waiting.
    taken: usize,
    /// Bytes of the requests that were taken.
    bytes: usize,
    callers: Vec<Caller>,
    /// The message that ended the commit.
    other: Option<Message>,
}

/// What is left of the jobs when their commit has ended.
#[derive(Debug)]
pub(super) struct Taken {
    /// The callers to answer, in the order of their requests.
    pub(super) callers: Vec<Caller>,
    /// Number of jobs, with those whose callers stopped waiting.
    pub(super) jobs: usize,
    /// The message that is not a job.
    pub(super) other: Option<Message>,
}

impl Intake {
    /// Creates the intake of a commit. `expected` is the number of jobs of the commit before: as many writers will probably come back
    /// after their answers.
    pub(super) fn new(first: Job, bounds: GroupCommit, expected: usize) -> Self {
        Self {
            bounds,
            first: Some(first),
            expected,
            patience: bounds.linger.min(MAX_LINGER),
            taken: 0,
            bytes: 0,
            callers: Vec::new(),
            other: None,
        }
    }

    /// Takes the next request; `None` if the commit is complete. Waits a little if there are fewer jobs than expected.
    pub(super) fn next(&mut self, queue: &Requests) -> Option<Request> {
        loop {
            let job = match self.first.take() {
                Some(first) => first,
                None => self.receive(queue)?,
            };
            self.taken += 1;
            if job.is_wanted() {
                self.bytes += job.bytes;
                let (request, caller) = job.split();
                self.callers.push(caller);
                return Some(request);
            }
        }
    }

    fn receive(&mut self, queue: &Requests) -> Option<Job> {
        let GroupCommit {
            max_transactions,
            max_bytes,
            ..
        } = self.bounds;
        if self.other.is_some() || self.taken >= max_transactions || self.bytes >= max_bytes {
            return None;
        }
        match queue.0.try_recv().ok().or_else(|| self.wait(queue))? {
            Message::Change(job) => Some(job),
            other => {
                self.other = Some(other);
                None
            }
        }
    }

    /// Waits for a message, but only for writers that were here last time. A single writer never waits.
    fn wait(&mut self, queue: &Requests) -> Option<Message> {
        if self.taken >= self.expected || self.patience.is_zero() {
            return None;
        }
        let since = Instant::now();
        let message = queue.0.recv_timeout(self.patience).ok();
        self.patience = self.patience.saturating_sub(since.elapsed());
        message
    }

    /// Returns the bytes of the requests that were taken.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ends the intake. The job that began the commit counts as taken, even if the commit failed before.
    pub(super) fn end(mut self) -> Taken {
        if let Some(first) = self.first.take() {
            self.taken += 1;
            self.callers.push(first.split().1);
        }
        Taken {
            callers: self.callers,
            jobs: self.taken,
            other: self.other,
        }
    }
}
