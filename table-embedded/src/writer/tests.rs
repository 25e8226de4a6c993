//! Single steps of the writer.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use redb::{ReadableDatabase, ReadableTableMetadata};
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, Result, Written};
use tempfile::TempDir;

use super::queue::{Job, Message, Queue};
use super::*;
use crate::format::ROWS;
use crate::tests::disk::{Disk, SYNCS_FAIL};
use crate::{Durability, EmbeddedStore};

struct Turns {
    writer: Writer,
    queue: Arc<Queue>,
    disk: Arc<Disk>,
    _directory: TempDir,
}

/// A request that is in the queue.
type Asked<'q> = Pin<Box<dyn Future<Output = Result<Vec<Written>>> + 'q>>;

fn is_answered(asked: &mut Asked<'_>) -> bool {
    asked
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

/// Asks for the insert of an entity with this RowKey.
fn asked<'q>(queue: &'q Queue, row: &str) -> Asked<'q> {
    let operation = Operation::Insert(Entity::new("p", row).unwrap());
    let mut asked: Asked<'q> =
        Box::pin(queue.submit(Request::Write(table(), Writes::One(operation))));
    assert!(!is_answered(&mut asked));
    asked
}

fn table() -> TableName {
    TableName::new("Things").unwrap()
}

impl Turns {
    /// Creates a store with one table and without a writer thread.
    fn new(durability: Durability) -> Self {
        let (directory, disk) = (tempfile::tempdir().unwrap(), Arc::<Disk>::default());
        let mut config = EmbeddedStore::builder("unused")
            .durability(durability)
            .config;
        config.file.opener = disk.opener();
        let (queue, requests) = Queue::new();
        let writer = Writer::open(
            Directory::lock(directory.path(), config.access).unwrap(),
            config,
            requests,
        )
        .unwrap();
        let mut turns = Self {
            writer,
            queue: Arc::new(queue),
            disk,
            _directory: directory,
        };
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
        let job = self.received();
        assert!(self.writer.batch(job).is_none());
        match asking.poll(&mut context) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("there is no answer"),
        }
    }

    fn received(&self) -> Job {
        let Ok(Message::Change(job)) = self.writer.requests.0.try_recv() else {
            panic!("nothing is asked for")
        };
        job
    }

    fn insert(&mut self, row: &str, bytes: usize) -> Result<Vec<Written>> {
        let text = "x".repeat(30_000);
        let entity = Entity::new("p", row).unwrap();
        let entity =
            (0..bytes / 30_000).fold(entity, |entity, n| entity.with(&format!("N{n}"), &*text));
        self.ask(Request::Write(
            table(),
            Writes::One(Operation::Insert(entity)),
        ))
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
fn a_commit_takes_requests_up_to_its_bounds_and_leaves_the_others() {
    let mut turns = Turns::new(Durability::Immediate);
    turns.writer.config.group_commit.max_transactions = 2;
    let queue = Arc::clone(&turns.queue);
    let mut asked = ["1", "2", "3"].map(|row| asked(&queue, row));
    let mut is_answered = || asked.each_mut().map(is_answered);
    let (first, syncs) = (turns.received(), turns.disk.syncs());
    assert!(turns.writer.batch(first).is_none());
    assert_eq!(turns.rows(), 2);
    let each = turns.disk.syncs() - syncs;
    assert_eq!(is_answered(), [true, true, false]);
    let first = turns.received();
    assert!(turns.writer.batch(first).is_none());
    assert_eq!((turns.rows(), turns.disk.syncs() - syncs), (3, 2 * each));
}

#[test]
fn a_commit_skips_writes_without_a_caller_and_ends_at_another_message() {
    let mut turns = Turns::new(Durability::Immediate);
    let queue = Arc::clone(&turns.queue);
    let (dropped, mut before) = (asked(&queue, "dropped"), asked(&queue, "before"));
    let mut watching = Box::pin(queue.watch());
    assert!(
        watching
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    let mut after = asked(&queue, "after");
    drop(dropped);
    let first = turns.received();
    let other = turns.writer.batch(first);
    assert!(matches!(other, Some(Message::Watch(_))));
    assert_eq!(
        (
            is_answered(&mut before),
            is_answered(&mut after),
            turns.rows()
        ),
        (true, false, 1)
    );
    let first = turns.received();
    assert!(turns.writer.batch(first).is_none());
    assert_eq!((is_answered(&mut after), turns.rows()), (true, 2));
}

#[test]
fn a_failed_commit_reports_how_many_acknowledged_writes_may_be_lost() {
    let mut turns = Turns::relaxed();
    for row in ["1", "2"] {
        turns.insert(row, 0).unwrap();
    }
    turns.disk.set(SYNCS_FAIL);
    let error = turns
        .ask(Request::CreateTable(TableName::new("Others").unwrap()))
        .unwrap_err();
    assert!(
        error.is_ambiguous() && error.to_string().contains("2 earlier writes"),
        "{error}"
    );

    let mut turns = Turns::new(Durability::Immediate);
    turns.insert("1", 0).unwrap();
    turns.disk.set(SYNCS_FAIL);
    let error = turns.insert("2", 0).unwrap_err();
    assert!(
        error.is_ambiguous() && !error.to_string().contains("earlier"),
        "{error}"
    );
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
