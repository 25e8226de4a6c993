//! Order of writes: pieces of work run at once, and pieces that write one key run one after another, in the order in which they were added.
//!
//! Every bulk write uses it, whatever its handle: the last row of a key in the input is the row that is stored.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::pin::Pin;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt as _, stream};

/// Pieces of work with the keys that they write.
///
/// A piece starts when every earlier piece with one of its keys has ended, and a permit is free. Its keys are taken until it
/// ends, so the retries and the parts of a split group keep the order too.
pub(crate) struct InOrder<'a, K, O> {
    concurrency: usize,
    running: FuturesUnordered<BoxFuture<'a, (u64, O)>>,
    pieces: HashMap<u64, Piece<'a, K, O>>,
    /// The pieces of each key, in order.
    queues: HashMap<K, KeyQueue>,
    /// Pieces that wait for a permit only.
    ready: VecDeque<u64>,
    next_number: u64,
}

/// A piece that has not ended.
struct Piece<'a, K, O> {
    keys: Vec<K>,
    /// `None` when the piece runs.
    work: Option<BoxFuture<'a, O>>,
    /// The number of its keys that an earlier piece has.
    blocked: usize,
}

/// The pieces of a key. Most keys have one, which takes no allocation.
struct KeyQueue {
    first: u64,
    others: VecDeque<u64>,
}

impl<'a, K: Clone + Eq + Hash, O: Send + 'a> InOrder<'a, K, O> {
    /// Runs up to `concurrency` pieces at once, at least 1.
    pub(crate) fn new(concurrency: usize) -> Self {
        Self {
            concurrency: concurrency.max(1),
            running: FuturesUnordered::new(),
            pieces: HashMap::new(),
            queues: HashMap::new(),
            ready: VecDeque::new(),
            next_number: 0,
        }
    }

    /// Whether the next piece must not be added before another ends: every permit is taken, or as many pieces wait as may run at
    /// once. The second bound is that of memory: an input with one key would otherwise be read to its end.
    pub(crate) fn is_full(&self) -> bool {
        self.running.len() >= self.concurrency
            || self.pieces.len() - self.running.len() >= self.concurrency
    }

    /// Whether no piece runs. Then no piece waits either.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Adds a piece. `keys` are the keys that it writes, each once.
    pub(crate) fn push(&mut self, keys: Vec<K>, work: BoxFuture<'a, O>) {
        let number = self.next_number;
        self.next_number += 1;
        let mut blocked = 0;
        for key in &keys {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.others.push_back(number);
                blocked += 1;
            } else {
                self.queues.insert(
                    key.clone(),
                    KeyQueue {
                        first: number,
                        others: VecDeque::new(),
                    },
                );
            }
        }
        self.pieces.insert(
            number,
            Piece {
                keys,
                work: Some(work),
                blocked,
            },
        );
        if blocked == 0 {
            self.ready.push_back(number);
            self.start_ready();
        }
    }

    /// The result of the next piece that ends; `None` if there is no piece. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Option<O> {
        let (number, output) = self.running.next().await?;
        self.end(number);
        Some(output)
    }

    /// Frees the keys of a piece, and starts the pieces that waited for it.
    fn end(&mut self, number: u64) {
        let Some(ended) = self.pieces.remove(&number) else {
            return;
        };
        for key in ended.keys {
            let Some(queue) = self.queues.get_mut(&key) else {
                continue;
            };
            let Some(next) = queue.others.pop_front() else {
                self.queues.remove(&key);
                continue;
            };
            queue.first = next;
            if let Some(piece) = self.pieces.get_mut(&next) {
                piece.blocked -= 1;
                if piece.blocked == 0 {
                    self.ready.push_back(next);
                }
            }
        }
        self.start_ready();
    }

    fn start_ready(&mut self) {
        while self.running.len() < self.concurrency {
            let Some(number) = self.ready.pop_front() else {
                return;
            };
            let Some(work) = self
                .pieces
                .get_mut(&number)
                .and_then(|piece| piece.work.take())
            else {
                continue;
            };
            self.running
                .push(Box::pin(async move { (number, work.await) }));
        }
    }
}

/// Runs the pieces of a stream, each with the keys that it writes, and returns their results as they end. See [`InOrder`].
pub(crate) fn run_in_order<'a, K, O, S>(
    pieces: S,
    concurrency: usize,
) -> impl Stream<Item = O> + Send + use<'a, K, O, S>
where
    K: Clone + Eq + Hash + Send + 'a,
    O: Send + 'a,
    S: Stream<Item = (Vec<K>, BoxFuture<'a, O>)> + Send + 'a,
{
    let start = (Some(Box::pin(pieces)), InOrder::new(concurrency));
    stream::unfold(start, |(mut input, mut work)| async move {
        let ended = next_result(&mut input, &mut work).await?;
        Some((ended, (input, work)))
    })
}

async fn next_result<'a, K, O, S>(
    input: &mut Option<Pin<Box<S>>>,
    work: &mut InOrder<'a, K, O>,
) -> Option<O>
where
    K: Clone + Eq + Hash,
    O: Send + 'a,
    S: Stream<Item = (Vec<K>, BoxFuture<'a, O>)>,
{
    loop {
        let Some(pieces) = input.as_mut().filter(|_| !work.is_full()) else {
            return work.next().await;
        };
        let piece = tokio::select! {
            // The input first: it fills the permits. Both branches may be dropped when the other is ready.
            biased;
            piece = pieces.next() => piece,
            ended = work.next(), if !work.is_idle() => return ended,
        };
        match piece {
            Some((keys, piece)) => work.push(keys, piece),
            None => *input = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use proptest::prelude::prop;

    use super::*;

    /// Runs pieces with these keys; each takes a time that depends on its number. Returns the starts and ends in their order.
    async fn events(
        pieces: Vec<Vec<u8>>,
        times: Vec<u64>,
        concurrency: usize,
    ) -> (Vec<(usize, bool)>, Vec<usize>) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let log = |event| events.lock().expect("no panic").push(event);
        let work = pieces.into_iter().enumerate().map(|(number, keys)| {
            let time = Duration::from_millis(times[number % times.len()]);
            let piece = async move {
                log((number, true));
                tokio::time::sleep(time).await;
                log((number, false));
                number
            };
            (keys, piece.boxed())
        });
        let ended = run_in_order(stream::iter(work.collect::<Vec<_>>()), concurrency)
            .collect()
            .await;
        let events = events.lock().expect("no panic").clone();
        (events, ended)
    }

    proptest::proptest! {
        /// No piece starts before the earlier pieces of its keys have ended, every piece runs once, and no more run at once than
        /// are allowed.
        #[test]
        fn pieces_of_a_key_run_in_order(
            pieces in prop::collection::vec(prop::collection::btree_set(0..6u8, 0..4), 0..60),
            times in prop::collection::vec(0..20u64, 1..9),
            concurrency in 1..7usize,
        ) {
            let pieces: Vec<Vec<u8>> = pieces.into_iter().map(|keys| keys.into_iter().collect()).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
            let (events, mut ended) = runtime.block_on(events(pieces.clone(), times, concurrency));
            let mut running = Vec::<usize>::new();
            let mut done = vec![false; pieces.len()];
            for (number, starts) in events {
                if !starts {
                    running.retain(|other| *other != number);
                    done[number] = true;
                    continue;
                }
                running.push(number);
                assert!(running.len() <= concurrency);
                let shares = |other: &usize| pieces[*other].iter().any(|key| pieces[number].contains(key));
                assert!((0..number).filter(shares).all(|earlier| done[earlier]));
            }
            ended.sort_unstable();
            assert_eq!(ended, (0..pieces.len()).collect::<Vec<_>>());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_waits_does_not_hold_back_other_keys() {
        let (events, _) = events(vec![vec![1], vec![1], vec![2]], vec![10], 4).await;
        let starts: Vec<_> = events
            .iter()
            .filter(|(_, starts)| *starts)
            .map(|(number, _)| *number)
            .collect();
        assert_eq!(starts, [0, 2, 1]);
    }

    #[tokio::test]
    async fn an_input_of_one_key_is_read_no_further_than_the_bound() {
        let mut work = InOrder::<u8, ()>::new(3);
        let mut added = 0;
        while !work.is_full() {
            work.push(vec![7], std::future::pending().boxed());
            added += 1;
        }
        assert_eq!(added, 4, "one runs and three wait");
    }
}
