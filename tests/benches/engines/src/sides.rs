use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use table_core::model::Key;
use tokio::runtime::Runtime;

use crate::committer::Committer;
use crate::direct::{self, Direct};
use crate::flight::Flight;
use crate::lsm::Lsm;
use crate::ours::Ours;
use crate::sqlite::Sqlite;

/// An engine with a table of flights.
pub(crate) trait Side: Sync {
    fn name(&self) -> &'static str;
    /// Reads each flight by its key.
    fn get_all(&self, flights: &[Flight]);
    fn scan(&self, carrier: &str) -> Vec<Flight>;
    /// Inserts flights of one carrier in a transaction that is on disk when this returns.
    fn group(&self, flights: &[Flight]);
    /// Inserts a flight that is on disk when this returns.
    fn insert(&self, flight: &Flight);

    /// Inserts flights from a thread for `each` of them. Returns the time of each insert.
    fn insert_at_once(&self, flights: &[Flight], each: usize) -> Vec<Duration> {
        let part = |part: &[Flight]| {
            part.iter()
                .map(|flight| timed(|| self.insert(flight)))
                .collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let part = &part;
            let start = |flights| scope.spawn(move || part(flights));
            let threads: Vec<_> = flights.chunks(each).map(start).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        })
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

pub(crate) fn open(directory: &Path) -> [Box<dyn Side>; 5] {
    let runtime = Arc::new(Runtime::new().unwrap());
    let (here, by_hand) = (directory.join("redb"), directory.join("group-commit"));
    [&here, &by_hand]
        .into_iter()
        .for_each(|path| std::fs::create_dir(path).unwrap());
    let direct = Arc::new(Direct::create(&by_hand));
    let committer = Arc::new(Committer::start(&direct));
    [
        Box::new(Embedded {
            ours: runtime.block_on(Ours::create(directory)),
            runtime: Arc::clone(&runtime),
        }),
        Box::new(Direct::create(&here)),
        Box::new(ByHand {
            committer,
            direct,
            runtime,
        }),
        Box::new(Sqlite::create(&directory.join("sqlite"))),
        Box::new(Lsm::create(&directory.join("fjall"))),
    ]
}

/// Runs a task for `each` of the flights. Returns the time of each insert.
fn in_tasks<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    (flights, each): (&[Flight], usize),
    insert: impl Fn(Flight) -> F + Clone + Send + 'static,
) -> Vec<Duration> {
    let task = |flights: &[Flight]| {
        let (flights, insert) = (flights.to_vec(), insert.clone());
        runtime.spawn(async move {
            let mut times = Vec::new();
            for flight in flights {
                let started = Instant::now();
                insert(flight).await;
                times.push(started.elapsed());
            }
            times
        })
    };
    let tasks: Vec<_> = flights.chunks(each).map(task).collect();
    runtime.block_on(try_join_all(tasks)).unwrap().concat()
}

struct Embedded {
    ours: Ours,
    runtime: Arc<Runtime>,
}

impl Side for Embedded {
    fn name(&self) -> &'static str {
        "this library"
    }

    fn get_all(&self, flights: &[Flight]) {
        let keys: Vec<_> = flights
            .iter()
            .map(|f| Key::from_sortable(&direct::key(f)).unwrap())
            .collect();
        self.runtime.block_on(async {
            for key in &keys {
                black_box(self.ours.get(key).await);
            }
        });
    }

    fn scan(&self, carrier: &str) -> Vec<Flight> {
        self.runtime.block_on(self.ours.scan(carrier))
    }

    fn group(&self, flights: &[Flight]) {
        self.runtime.block_on(self.ours.insert_group(flights));
    }

    fn insert(&self, flight: &Flight) {
        self.runtime.block_on(self.ours.insert(flight));
    }

    fn insert_at_once(&self, flights: &[Flight], each: usize) -> Vec<Duration> {
        let ours = self.ours.clone();
        in_tasks(&self.runtime, (flights, each), move |flight| {
            let ours = ours.clone();
            async move { ours.insert(&flight).await }
        })
    }
}

impl Side for Direct {
    fn name(&self) -> &'static str {
        "redb, postcard"
    }

    fn get_all(&self, flights: &[Flight]) {
        flights
            .iter()
            .for_each(|flight| drop(black_box(self.get(&direct::key(flight)))));
    }

    fn scan(&self, carrier: &str) -> Vec<Flight> {
        Direct::scan(self, carrier)
    }

    fn group(&self, flights: &[Flight]) {
        Direct::insert(self, flights);
    }

    fn insert(&self, flight: &Flight) {
        Direct::insert(self, std::slice::from_ref(flight));
    }
}

/// redb with a thread that commits the rows of all tasks together.
struct ByHand {
    committer: Arc<Committer>,
    direct: Arc<Direct>,
    runtime: Arc<Runtime>,
}

impl Side for ByHand {
    fn name(&self) -> &'static str {
        "redb, group commit by hand"
    }

    fn get_all(&self, flights: &[Flight]) {
        Side::get_all(&*self.direct, flights);
    }

    fn scan(&self, carrier: &str) -> Vec<Flight> {
        self.direct.scan(carrier)
    }

    fn group(&self, flights: &[Flight]) {
        self.direct.insert(flights);
    }

    fn insert(&self, flight: &Flight) {
        self.runtime.block_on(self.committer.insert(flight));
    }

    fn insert_at_once(&self, flights: &[Flight], each: usize) -> Vec<Duration> {
        let committer = Arc::clone(&self.committer);
        in_tasks(&self.runtime, (flights, each), move |flight| {
            let committer = Arc::clone(&committer);
            async move { committer.insert(&flight).await }
        })
    }
}
