//! A writer crashes at every request, and another process recovers by tickets in Azure Queue Storage, with the
//! service's visibility timeouts in real time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use conformance::azurite::Azurite;
use futures_util::future::try_join_all;
use table_azure::AzureTableStore;
use table_azure::queue::AzureWorkQueue;
use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_core::queue::{Message, Receipt, WorkQueue};
use table_core::store::{Error, Outcome, Result, TableStore};
use table_patterns::index::IndexOptions;
use table_patterns::journal::{Clearing, Recovery, Timing};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use uuid::Uuid;

use crate::check::assert_in_step;
use crate::process::{Knows, Names, Process, person};

/// A queue that a crashed process cannot reach.
#[derive(Debug)]
struct CrashingQueue {
    queue: Arc<dyn WorkQueue>,
    faults: FaultInjector,
}

impl CrashingQueue {
    fn alive(&self) -> Result<&dyn WorkQueue> {
        let dead = || Error::application("the process is dead").with_outcome(Outcome::Ambiguous);
        if self.faults.is_crashed() {
            Err(dead())
        } else {
            Ok(&*self.queue)
        }
    }
}

#[async_trait]
impl WorkQueue for CrashingQueue {
    async fn send(&self, body: &str, delay: Duration) -> Result<Receipt> {
        self.alive()?.send(body, delay).await
    }

    async fn receive(&self, max: usize, visibility: Duration) -> Result<Vec<Message>> {
        self.alive()?.receive(max, visibility).await
    }

    async fn renew(&self, receipt: &Receipt, visibility: Duration) -> Result<Receipt> {
        self.alive()?.renew(receipt, visibility).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<()> {
        self.alive()?.delete(receipt).await
    }

    async fn peek(&self, max: usize) -> Result<Vec<Message>> {
        self.alive()?.peek(max).await
    }

    async fn poison(&self, max: usize) -> Result<Vec<Message>> {
        self.alive()?.poison(max).await
    }

    async fn requeue(&self, message: &Message) -> Result<Receipt> {
        self.alive()?.requeue(message).await
    }
}

/// The service rounds to whole seconds.
fn options() -> Result<IndexOptions> {
    let mut options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
    // The write sends the only requests, and its first request follows the ticket.
    options.cache = Duration::from_secs(300);
    options.timing = Timing::new(
        Duration::from_secs(4),
        Duration::from_secs(1),
        Duration::ZERO,
    )?;
    Ok(options)
}

/// Works until no ticket was visible for longer than a visibility timeout. Returns the number of tickets.
async fn work(process: &Process) -> Result<usize> {
    let (mut tickets, mut idle) = (0, 0);
    while idle < if tickets == 0 { 30 } else { 6 } {
        sleep(Duration::from_secs(1)).await;
        let worker = Recovery::new(&*process.queue, vec![process.people.journal()]);
        let came = worker.run_once(8).await?;
        (tickets, idle) = (tickets + came, if came == 0 { idle + 1 } else { 0 });
    }
    Ok(tickets)
}

/// Returns whether the insert reached the crash.
async fn crash_and_recover(number: usize, request: u64, point: CrashPoint) -> Result<bool> {
    let case = format!("dead at request {request}, {point:?}");
    let text = spawn_blocking(|| Azurite::shared().connection_string())
        .await
        .expect("the emulator runs");
    let healthy: Arc<dyn TableStore> =
        Arc::new(AzureTableStore::from_connection_string(&text, None)?);
    let queue = AzureWorkQueue::from_connection_string(&text, &Uuid::new_v4().to_string(), None)?;
    queue.create_if_missing().await?;
    let queue: Arc<dyn WorkQueue> = Arc::new(queue);
    let names = Names::new(2000 + number);
    Process::create(&healthy, names).await?;

    let faults = FaultInjector::new(0);
    let faulty = Arc::new(Faulty::new(healthy.clone(), faults.clone()));
    let crashing = Arc::new(CrashingQueue {
        queue: queue.clone(),
        faults: faults.clone(),
    });
    let crashing = Process::start_on(faulty, crashing, names, Knows::Three, options()?).await?;
    crashing.people.insert(person("1", "ken", "oslo")?).await?;
    faults.crash_at(request, point);
    let answer = crashing.people.insert(person("2", "kim", "rome")?).await;
    let crashed = faults.is_crashed();
    drop(crashing);
    if !crashed {
        answer?;
        return Ok(false);
    }

    let second = Process::start_on(healthy, queue, names, Knows::Three, options()?).await?;
    assert!(work(&second).await? > 0, "{case}: the ticket is gone");
    let swept = second.sweep().await?;
    assert_eq!(swept.applied, 0, "{case}: the workers left unfinished work");
    assert_eq!(swept.left, 0, "{case}: the workers left unfinished work");
    assert_eq!(
        swept.released, 0,
        "{case}: the workers left unfinished work"
    );
    assert_in_step(&second, None, &case).await?;
    let written = second.entities().await?.len() == 2;
    assert!(
        written || answer.is_err(),
        "{case}: an acknowledged write is lost"
    );
    second.people.upsert(person("3", "kay", "rome")?).await?;
    Ok(true)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashes_are_recovered_by_tickets_in_azure_queue_storage() -> Result<()> {
    let deaths = (1..=8).flat_map(|request| CrashPoint::ALL.map(|point| (request, point)));
    let worlds = deaths
        .enumerate()
        .map(|(n, (request, point))| crash_and_recover(n, request, point));
    let crashed = try_join_all(worlds).await?;
    let crashes = crashed.iter().filter(|crashed| **crashed).count();
    assert!(crashes >= 10, "only {crashes} crashes");
    Ok(())
}
