//! Single steps of the writer.

use std::task::{Context, Poll, Waker};

use redb::{ReadableDatabase, ReadableTableMetadata};
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, Result, Written};
use tempfile::TempDir;

use super::queue::{Message, Queue};
use super::*;
use crate::format::ROWS;
use crate::tests::disk::{Disk, SYNCS_FAIL};
use crate::{Durability, EmbeddedStore};

struct Turns {
    writer: Writer,
    queue: Queue,
    disk: Arc<Disk>,
    _directory: TempDir,
}

fn table() -> TableName {
    TableName::new("Things").unwrap()
}

impl Turns {
    /// Creates a store with one table and without a writer thread.
    fn new(durability: Durability) -> Self {
        let (directory, disk) = (tempfile::tempdir().unwrap(), Arc::<Disk>::default());
        let mut config = EmbeddedStore::builder("unused").durability(durability).config;
        config.file.opener = disk.opener();
        let (queue, requests) = Queue::new();
        let writer =
            Writer::open(Directory::lock(directory.path(), config.access).unwrap(), config, requests)
                .unwrap();
        let mut turns = Self { writer, queue, disk, _directory: directory };
        turns.ask(Request::CreateTable(table())).unwrap();
        turns
    }

    /// Creates a store whose next writes stay in memory; the first write, which reserves versions on disk, is
    /// done.
    fn relaxed() -> Self {
        let mut turns = Self::new(Durability::Relaxed);
        turns.insert("first", 0).unwrap();
        turns
    }

    /// Executes a request in its own batch.
    fn ask(&mut self, request: Request) -> Result<Vec<Written>> {
        let mut asking = std::pin::pin!(self.queue.submit(request));
        let mut context = Context::from_waker(Waker::noop());
        assert!(asking.as_mut().poll(&mut context).is_pending());
        let Ok(Message::Change(job)) = self.writer.requests.0.try_recv() else {
            panic!("nothing is asked for")
        };
        assert!(self.writer.batch(job).is_none());
        match asking.poll(&mut context) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("there is no answer"),
        }
    }

    fn insert(&mut self, row: &str, bytes: usize) -> Result<Vec<Written>> {
        let text = "x".repeat(30_000);
        let entity = Entity::new("p", row).unwrap();
        let entity = (0..bytes / 30_000).fold(entity, |entity, n| entity.with(&format!("N{n}"), &*text));
        self.ask(Request::Write(table(), Writes::One(Operation::Insert(entity))))
    }

    fn rows(&self) -> u64 {
        let transaction = self.writer.database.as_ref().unwrap().begin_read().unwrap();
        transaction.open_table(ROWS).unwrap().len().unwrap()
    }
}

#[test]
fn refused_writes_do_not_keep_earlier_ones_from_the_disk() {
    let mut turns = Turns::relaxed();
    turns.insert("1", 0).unwrap();
    turns.insert("1", 0).unwrap_err();
    let unflushed = turns.writer.unflushed.as_mut().unwrap();
    unflushed.since -= FLUSH_AFTER;
    let syncs = turns.disk.syncs();
    turns.insert("1", 0).unwrap_err();
    assert!(turns.writer.unflushed.is_none() && turns.disk.syncs() > syncs);
}

#[test]
fn a_failed_commit_reports_how_many_acknowledged_writes_may_be_lost() {
    let mut turns = Turns::relaxed();
    for row in ["1", "2"] {
        turns.insert(row, 0).unwrap();
    }
    turns.disk.set(SYNCS_FAIL);
    let error = turns.ask(Request::CreateTable(TableName::new("Others").unwrap())).unwrap_err();
    assert!(error.is_ambiguous() && error.to_string().contains("2 earlier writes"), "{error}");

    let mut turns = Turns::new(Durability::Immediate);
    turns.insert("1", 0).unwrap();
    turns.disk.set(SYNCS_FAIL);
    let error = turns.insert("2", 0).unwrap_err();
    assert!(error.is_ambiguous() && !error.to_string().contains("earlier"), "{error}");
}

#[test]
fn large_rows_of_a_dropped_table_are_removed_a_few_at_a_time() {
    let mut turns = Turns::new(Durability::Immediate);
    for n in 0..6 {
        turns.insert(&n.to_string(), 600_000).unwrap();
    }
    turns.ask(Request::DeleteTable(table())).unwrap();
    // Immediately after the answer, and then in between other work.
    assert_eq!(turns.rows(), 4);
    for left in [2, 0] {
        turns.writer.reclaim().unwrap();
        assert_eq!(turns.rows(), left);
        assert_eq!(turns.writer.ledger.dropped.len(), 1);
    }
    turns.writer.reclaim().unwrap();
    assert!(turns.writer.ledger.dropped.is_empty());
    assert_eq!(turns.writer.next_wakeup(), None);
}

/// Reclaiming also happens if there is always a write to do.
#[test]
fn dropped_tables_are_reclaimed_during_continuous_writes() {
    let mut turns = Turns::new(Durability::Relaxed);
    for n in 0..6 {
        turns.insert(&n.to_string(), 600_000).unwrap();
    }
    turns.ask(Request::DeleteTable(table())).unwrap();
    turns.ask(Request::CreateTable(table())).unwrap();
    let mut writes = 0;
    while !turns.writer.ledger.dropped.is_empty() {
        turns.insert(&writes.to_string(), 0).unwrap();
        writes += 1;
    }
    assert_eq!(turns.rows(), writes);
}

#[test]
fn acknowledged_writes_are_on_disk_before_reclaiming() {
    let mut turns = Turns::relaxed();
    let before = turns.disk.syncs();
    turns.writer.prepare_recovery().unwrap();
    let preparing = turns.disk.syncs() - before;

    turns.insert("acknowledged", 0).unwrap();
    assert!(turns.writer.unflushed.is_some());
    turns.writer.ledger.dropped = vec![7];
    // The earlier syncs succeed; the sync of the reclaim fails.
    turns.disk.set_after(preparing, SYNCS_FAIL);
    turns.writer.reclaim().unwrap_err();
    assert_eq!(turns.writer.lost().0, 0);
    assert_eq!(turns.rows(), 2);
}
