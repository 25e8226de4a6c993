use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Prevents wake-ups that occur inside a poll from waking the polling task.
///
/// The two halves of a connection wake each other through channels, and one task polls both. Such a wake-up
/// need not reschedule the task, perhaps on another thread; polling once more is enough.
#[derive(Clone, Debug)]
pub(super) struct InlineWaker {
    state: Arc<State>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    flags: AtomicU8,
    task: AtomicWaker,
}

/// Maximum number of repeated polls. After that, the wake-up goes to the task as usual: a task that used up
/// its cooperative budget is woken in every poll until it yields.
const ROUNDS: usize = 4;
const POLLING: u8 = 1;
const WOKEN: u8 = 2;

impl InlineWaker {
    pub(super) fn new() -> Self {
        let state = Arc::new(State::default());
        Self { waker: Waker::from(Arc::clone(&state)), state }
    }

    /// Polls until the future is ready or no wake-up occurred during the poll, at most [`ROUNDS`] times.
    /// Later wake-ups reach the task.
    pub(super) fn poll<T>(
        &self,
        task: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        // Before the flags: a wake-up that sees 0 in the flags must find this task
        // (<https://docs.rs/futures-util/latest/futures_util/task/struct.AtomicWaker.html>).
        self.state.task.register(task.waker());
        for _ in 0..ROUNDS {
            self.state.flags.store(POLLING, Ordering::SeqCst);
            if let Poll::Ready(value) = poll(&mut Context::from_waker(&self.waker)) {
                self.state.flags.store(0, Ordering::SeqCst);
                return Poll::Ready(value);
            }
            // POLLING alone: nobody has woken since. From the exchange on, wake-ups go to the task, so none is lost between here and
            // `Pending`. Otherwise WOKEN is set, and another poll handles the wake-up.
            let quiet = self.state.flags.compare_exchange(POLLING, 0, Ordering::SeqCst, Ordering::SeqCst);
            if quiet.is_ok() {
                return Poll::Pending;
            }
        }
        self.state.flags.store(0, Ordering::SeqCst);
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // 0: no poll is running, and the task was not woken since the last one. With POLLING the running poll sees the flag; with
        // WOKEN the task is already on its way.
        if self.flags.fetch_or(WOKEN, Ordering::SeqCst) == 0 {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn only_wake_ups_from_outside_reach_the_task() {
        let (inline, task) = (InlineWaker::new(), Arc::new(Task::default()));
        let waker = Waker::from(Arc::clone(&task));
        let context = Context::from_waker(&waker);
        let (mut polls, mut inner) = (0, None);
        let polled = inline.poll(&context, |cx| {
            polls += 1;
            inner = Some(cx.waker().clone());
            if polls < 3 {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert_eq!(polled, Poll::Pending);
        assert_eq!(polls, 3);
        assert_eq!(task.0.load(Ordering::SeqCst), 0);
        let inner = inner.unwrap();
        inner.wake_by_ref();
        inner.wake();
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
        assert_eq!(inline.poll(&context, |_| Poll::Ready(5)), Poll::Ready(5));
        let endless = inline.poll(&context, |cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!(endless, Poll::Pending);
        assert_eq!(task.0.load(Ordering::SeqCst), 2);
    }
}
