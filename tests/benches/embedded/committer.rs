use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::direct::{Direct, key};
use crate::flight::Flight;

/// How long the committer waits for as many rows as it had last time: as `GroupCommit::default()`.
const LINGER: Duration = Duration::from_micros(150);

/// Group commit as a program writes it by hand on redb: tasks send rows to one thread, which commits the queued
/// rows together and then answers.
pub(crate) struct Committer {
    rows: Option<Sender<Row>>,
    thread: Option<JoinHandle<()>>,
}

struct Row {
    key: Vec<u8>,
    value: Vec<u8>,
    done: oneshot::Sender<()>,
}

impl Committer {
    pub(crate) fn start(direct: &Arc<Direct>) -> Self {
        let (sender, rows) = channel();
        let direct = Arc::clone(direct);
        Self {
            rows: Some(sender),
            thread: Some(std::thread::spawn(move || commit_all(&direct, &rows))),
        }
    }

    /// Returns when the flight is on disk.
    pub(crate) async fn insert(&self, flight: &Flight) {
        let (done, answer) = oneshot::channel();
        let row = Row {
            key: key(flight),
            value: postcard::to_stdvec(flight).unwrap(),
            done,
        };
        self.rows.as_ref().unwrap().send(row).unwrap();
        answer.await.unwrap();
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.rows = None;
        self.thread.take().unwrap().join().unwrap();
    }
}

fn commit_all(direct: &Direct, rows: &Receiver<Row>) {
    let mut last = 0;
    while let Ok(first) = rows.recv() {
        let mut batch = vec![first];
        while let Ok(row) = rows.recv_timeout(if batch.len() < last {
            LINGER
        } else {
            Duration::ZERO
        }) {
            batch.push(row);
        }
        last = batch.len();
        direct.commit(
            batch
                .iter()
                .map(|row| (row.key.as_slice(), row.value.as_slice())),
        );
        batch
            .into_iter()
            .for_each(|row| row.done.send(()).unwrap_or_default());
    }
}
