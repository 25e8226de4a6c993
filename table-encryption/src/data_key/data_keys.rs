use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use table_core::store::{Error, ErrorKind, Outcome, Result};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::FailedUnwraps;
use super::expiring_map::{ExpiringMap, is_expired};
use super::{CacheBounds, DataKey, DataKeyBounds, Secret, Wrapping};
use crate::error::Unreadable;
use crate::key::Keys;
use crate::key::fill_random;

/// Creates data keys within their bounds and unwraps stored data keys, each once.
pub(crate) struct DataKeys {
    inner: Arc<Inner>,
}

struct Inner {
    keys: Keys,
    bounds: DataKeyBounds,
    state: Mutex<State>,
    failed: FailedUnwraps,
    /// Held while a key is created.
    creation: tokio::sync::Mutex<()>,
    /// Wakes the eraser task if a new secret expires before the task would wake.
    wake_eraser: Arc<Notify>,
}

struct State {
    current: Option<Current>,
    secrets: ExpiringMap<Wrapping, Arc<Secret>>,
    /// Unwraps in progress. Concurrent readers of one key share the result.
    pending: HashMap<Wrapping, WeakShared<KeyUnwrap>>,
    eraser: Option<Eraser>,
}

type Opened = Result<Arc<Secret>, Unreadable>;
type KeyUnwrap = BoxFuture<'static, Opened>;

/// The current data key for writes.
struct Current {
    key: Arc<DataKey>,
    created: Instant,
    writes: u64,
}

/// The task that drops expired secrets, and the time of its next run.
struct Eraser {
    task: AbortHandle,
    wakes_at: Instant,
}

impl DataKeys {
    pub(crate) fn new(keys: Keys, bounds: DataKeyBounds, cache: CacheBounds) -> Self {
        let secrets = ExpiringMap::new(cache.max_keys, cache.max_age);
        let state = State {
            current: None,
            secrets,
            pending: HashMap::new(),
            eraser: None,
        };
        let inner = Inner {
            keys,
            bounds,
            state: Mutex::new(state),
            failed: FailedUnwraps::new(cache),
            creation: tokio::sync::Mutex::default(),
            wake_eraser: Arc::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// Returns the key for one write. Concurrent callers share one new key and one call of the key service.
    pub(crate) async fn for_write(&self) -> Result<Arc<DataKey>> {
        let inner = &self.inner;
        if let Some(key) = inner.current() {
            return Ok(key);
        }
        // Concurrent writers wait here and then use the key of the first writer. Hence the second look for a current key.
        let _creation = inner.creation.lock().await;
        if let Some(key) = inner.current() {
            return Ok(key);
        }
        let key = Arc::new(self.create().await?);
        let mut state = inner.state();
        state.current = Some(Current {
            key: Arc::clone(&key),
            created: Instant::now(),
            writes: 1,
        });
        // The writer's own entities can then be read without a call of the key service.
        state
            .secrets
            .insert(key.wrapping.clone(), Arc::clone(&key.secret));
        inner.schedule_erasure(&mut state);
        Ok(key)
    }

    async fn create(&self) -> Result<DataKey> {
        let mut bytes = zeroize::Zeroizing::new([0; 32]);
        fill_random(&mut *bytes)?;
        let secret = Arc::new(Secret::new(*bytes));
        let wrapping = self.wrap(&secret).await?;
        Ok(DataKey { secret, wrapping })
    }

    /// Wraps a data key with the active key encryption key.
    pub(crate) async fn wrap(&self, secret: &Secret) -> Result<Wrapping> {
        let active = self.keys().active();
        let wrapped = active.wrap_key(&secret.labelled()).await;
        // Whatever has become of the request to the key service, the row is not written yet.
        let wrapped = wrapped.map_err(|error| error.with_outcome(Outcome::NotApplied))?;
        if wrapped.len() > usize::from(u16::MAX) {
            return Err(Error::limit(
                "bytes of a wrapped key",
                usize::from(u16::MAX),
                wrapped.len(),
            ));
        }
        Ok(Wrapping {
            algorithm: active.algorithm().into(),
            key_id: active.key_id().into(),
            wrapped: wrapped.into(),
        })
    }

    /// Returns the data key in a wrapping: from the cache, or unwrapped once for all concurrent callers. A
    /// wrapping that recently could not be unwrapped is not tried again.
    pub(crate) async fn open(&self, wrapping: &Wrapping) -> Opened {
        let unwrap = {
            let mut state = self.inner.state();
            if let Some(secret) = state.secrets.get(wrapping) {
                return Ok(Arc::clone(secret));
            }
            if let Some(failed) = self.inner.failed.get(wrapping) {
                return Err(failed);
            }
            // Only started under the lock; the wait is outside. The future is shared and weak: it goes on while one caller waits, and ends
            // when the last caller has dropped it.
            state.join_or_start(wrapping, || {
                Arc::clone(&self.inner)
                    .unwrap_and_keep(wrapping.clone())
                    .boxed()
            })
        };
        unwrap.await
    }
}

impl State {
    /// Returns the unwrap in progress for this key, or starts one.
    fn join_or_start(
        &mut self,
        wrapping: &Wrapping,
        new: impl FnOnce() -> KeyUnwrap,
    ) -> Shared<KeyUnwrap> {
        if let Some(unwrap) = self.pending.get(wrapping).and_then(WeakShared::upgrade) {
            return unwrap;
        }
        // Removes unwraps that all callers dropped before they finished.
        self.pending.retain(|_, unwrap| unwrap.upgrade().is_some());
        let unwrap = new().shared();
        if let Some(weak) = unwrap.downgrade() {
            self.pending.insert(wrapping.clone(), weak);
        }
        unwrap
    }

    /// Drops expired secrets. Returns when the next secret expires.
    fn remove_expired(&mut self, max_age: Duration) -> Option<Instant> {
        let now = Instant::now();
        let next = self.secrets.remove_expired(now);
        let ends = |current: &Current| current.created.checked_add(max_age);
        if self
            .current
            .as_ref()
            .is_some_and(|current| is_expired(ends(current), now))
        {
            self.current = None;
        }
        [next, self.current.as_ref().and_then(ends)]
            .into_iter()
            .flatten()
            .min()
    }
}

impl Inner {
    // The state is consistent after every statement, so a panic of another holder leaves nothing to repair.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current key for one more write, if its bounds allow it.
    fn current(&self) -> Option<Arc<DataKey>> {
        let mut state = self.state();
        let current = state
            .current
            .as_mut()
            .filter(|current| current.may_serve(&self.bounds))?;
        current.writes += 1;
        Some(Arc::clone(&current.key))
    }

    async fn unwrap_and_keep(self: Arc<Self>, wrapping: Wrapping) -> Opened {
        let opened = self.unwrap(&wrapping).await;
        let mut state = self.state();
        match &opened {
            Ok(secret) => {
                state.secrets.insert(wrapping.clone(), Arc::clone(secret));
                self.schedule_erasure(&mut state);
            }
            Err(failure) => self.failed.record(&wrapping, failure),
        }
        // Under the lock of the result: a caller finds the unwrap in progress or its result, and starts no second one.
        state.pending.remove(&wrapping);
        drop(state);
        opened
    }

    async fn unwrap(&self, wrapping: &Wrapping) -> Opened {
        let key = self.keys.find(&wrapping.key_id).await.map_err(unreadable)?;
        // The algorithm is a claim of the stored bytes. Only the key's own algorithm is used, so the claim selects nothing.
        let key = key
            .filter(|k| k.algorithm() == &*wrapping.algorithm)
            .ok_or(Unreadable::Refused)?;
        let bytes = key
            .unwrap_key(&wrapping.wrapped)
            .await
            .map_err(unreadable)?;
        Secret::from_labelled(&bytes)
            .map(Arc::new)
            .ok_or(Unreadable::Refused)
    }

    /// Ensures that a task drops the secrets when they expire, also while the store is idle.
    fn schedule_erasure(self: &Arc<Self>, state: &mut State) {
        let Some(next) = state.remove_expired(self.bounds.max_age) else {
            return;
        };
        match &mut state.eraser {
            Some(eraser) if !eraser.task.is_finished() => {
                if next < eraser.wakes_at {
                    eraser.wakes_at = next;
                    self.wake_eraser.notify_one();
                }
            }
            eraser => {
                let Ok(runtime) = Handle::try_current() else {
                    return;
                };
                let task = runtime.spawn(erase_expired(
                    Arc::downgrade(self),
                    Arc::clone(&self.wake_eraser),
                ));
                *eraser = Some(Eraser {
                    task: task.abort_handle(),
                    wakes_at: next,
                });
            }
        }
    }

    /// Drops expired secrets and returns when the next secret expires. Without one the task ends, and the
    /// next key starts a new task.
    fn remove_expired(&self) -> Option<Instant> {
        let mut state = self.state();
        let next = state.remove_expired(self.bounds.max_age);
        match (next, &mut state.eraser) {
            (Some(next), Some(eraser)) => eraser.wakes_at = next,
            _ => state.eraser = None,
        }
        next
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(eraser) = &state.eraser {
            // The task would end at its next wake, up to `max_age` later: the abort frees it now.
            eraser.task.abort();
        }
    }
}

/// Drops secrets as they expire. Holds only a weak reference, so it keeps no secret alive and ends with the
/// store.
async fn erase_expired(keys: Weak<Inner>, woken_early: Arc<Notify>) {
    while let Some(next) = keys.upgrade().and_then(|keys| keys.remove_expired()) {
        // Both ends of the wait mean the same: drop what has expired, and ask for the next time.
        let _woken = timeout_at(next, woken_early.notified()).await;
    }
}

/// Converts an error. Readers cannot distinguish a refusing key from changed data, but they can see that a
/// key service is unavailable.
pub(crate) fn unreadable(error: Error) -> Unreadable {
    match error.kind() {
        ErrorKind::Encryption(_) => Unreadable::Refused,
        _ => Unreadable::Unavailable(error),
    }
}

impl Current {
    fn may_serve(&self, bounds: &DataKeyBounds) -> bool {
        self.writes < bounds.max_writes && self.created.elapsed() < bounds.max_age
    }
}

impl fmt::Debug for DataKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKeys")
            .field("keys", &self.inner.keys)
            .field("bounds", &self.inner.bounds)
            .field("cached", &self.inner.state().secrets.len())
            .finish_non_exhaustive()
    }
}
