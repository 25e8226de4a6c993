use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use azure_core::http::Url;
use tokio::task::JoinHandle;

use super::connection::Connection;

/// How long an idle connection is kept. Azure closes it after four minutes.
const KEPT: Duration = Duration::from_secs(90);

/// Idle connections. The connection that was returned last is used first.
#[derive(Debug, Default)]
pub(super) struct Idle(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    connections: Vec<(Connection, Instant)>,
    sweeper: Option<JoinHandle<()>>,
}

impl Idle {
    /// Takes an open connection to the URL's server that the server is not about to close.
    pub(super) fn take(&self, url: &Url) -> Option<Connection> {
        loop {
            let (mut connection, since) = lock(&self.0).take(url)?;
            if !connection.is_stale(since.elapsed()) && connection.is_open() {
                return Some(connection);
            }
        }
    }

    pub(super) fn put(&self, connection: Connection) {
        let mut waiting = lock(&self.0);
        waiting.connections.push((connection, Instant::now()));
        if waiting.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            waiting.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(&self.0))));
        }
    }
}

impl Waiting {
    fn take(&mut self, url: &Url) -> Option<(Connection, Instant)> {
        // From the end: the connection that was used last is the least likely to be closed, and those at the start
        // can grow old and be swept.
        let at = self.connections.iter().rposition(|(connection, _)| connection.matches_origin(url))?;
        Some(self.connections.remove(at))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

/// Closes connections that were idle for too long, and ends when no connection is left.
async fn sweep(waiting: Weak<Mutex<Waiting>>) {
    loop {
        tokio::time::sleep(KEPT / 2).await;
        let Some(waiting) = waiting.upgrade() else { return };
        let mut waiting = lock(&waiting);
        waiting.connections.retain(|(_, since)| since.elapsed() < KEPT);
        if waiting.connections.is_empty() {
            waiting.sweeper = None;
            return;
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
