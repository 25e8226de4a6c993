//! Bounds the memory of answers that clients have not read yet.

use std::sync::Arc;
use std::time::Duration;

use table_core::store::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::errors::{Failure, Result};
use crate::limits::Limits;

/// Maximum time that a query waits until other clients have read their answers.
const WAIT: Duration = Duration::from_secs(10);

/// Answers up to this length are not counted: the number of connections bounds them.
const SMALL: usize = 64 * 1024;

/// The memory that is left for answers, a permit per byte. A slow client keeps the memory of one answer, because
/// a connection answers one request at a time.
#[derive(Debug)]
pub(crate) struct Unread {
    room: Arc<Semaphore>,
    bytes: usize,
}

impl Unread {
    pub(crate) fn new(limits: &Limits) -> Self {
        let bytes = limits.answer_memory.min(Semaphore::MAX_PERMITS);
        Self { room: Arc::new(Semaphore::new(bytes)), bytes }
    }

    /// Waits for the memory of a page. It is reserved before the page is read, because a page that waits is in
    /// memory already.
    pub(crate) async fn reserve_page(&self) -> Result<OwnedSemaphorePermit> {
        let page = u32::try_from(limits::PAGE_BYTES.min(self.bytes)).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(page) {
            return Ok(room);
        }
        match timeout(WAIT, Arc::clone(&self.room).acquire_many_owned(page)).await {
            Ok(Ok(room)) => Ok(room),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }

    /// Changes a reservation to the length of the answer. JSON can be longer than the page.
    pub(crate) fn resize(
        &self,
        mut room: OwnedSemaphorePermit,
        length: usize,
    ) -> Result<OwnedSemaphorePermit> {
        match room.num_permits().checked_sub(length) {
            Some(excess) => drop(room.split(excess)),
            None => room.merge(self.acquire(length - room.num_permits())?),
        }
        Ok(room)
    }

    /// Returns the memory of an answer that was built without a reservation; `None` if it is small.
    pub(crate) fn take(&self, length: usize) -> Result<Option<OwnedSemaphorePermit>> {
        if length <= SMALL { Ok(None) } else { self.acquire(length).map(Some) }
    }

    fn acquire(&self, length: usize) -> Result<OwnedSemaphorePermit> {
        let length = u32::try_from(length).map_err(|_| busy())?;
        Arc::clone(&self.room).try_acquire_many_owned(length).map_err(|_| busy())
    }
}

fn busy() -> Failure {
    Failure::busy(Some(Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(answer_memory: usize) -> Unread {
        Unread::new(&Limits { answer_memory, ..Limits::default() })
    }

    const PAGE: usize = limits::PAGE_BYTES;

    #[tokio::test(start_paused = true)]
    async fn queries_wait_for_unread_answers_and_are_refused_after_a_time() {
        let unread = unread(2 * PAGE);
        let first = unread.resize(unread.reserve_page().await.unwrap(), PAGE + 5).unwrap();
        assert_eq!(unread.reserve_page().await.unwrap_err().code, "ServerBusy");
        let waits = async { unread.reserve_page().await.map(drop) };
        let reads = async {
            tokio::time::sleep(WAIT / 2).await;
            drop(first);
        };
        let (waited, ()) = tokio::join!(waits, reads);
        assert!(waited.is_ok());
        assert_eq!(unread.room.available_permits(), 2 * PAGE);
    }

    #[tokio::test]
    async fn a_reservation_shrinks_to_its_answer() {
        let unread = unread(2 * PAGE);
        let small = unread.resize(unread.reserve_page().await.unwrap(), 7).unwrap();
        assert_eq!(unread.room.available_permits(), 2 * PAGE - 7);
        let page = unread.reserve_page().await.unwrap();
        assert_eq!(unread.resize(page, 2 * PAGE - 6).unwrap_err().code, "ServerBusy");
        drop(small);
        assert_eq!(unread.room.available_permits(), 2 * PAGE);
        assert!(unread.take(SMALL).unwrap().is_none() && unread.take(SMALL + 1).unwrap().is_some());
        assert_eq!(unread.take(2 * PAGE + 1).unwrap_err().code, "ServerBusy");
        assert!(self::unread(0).reserve_page().await.is_ok());
    }
}
