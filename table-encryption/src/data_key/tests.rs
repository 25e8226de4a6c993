use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::error::Unreadable;
use crate::testing::{CountingWrap, Outage, UnreliableWrap, kek};
use crate::{KeyWrap, Keys};

fn bounded_keys(max_writes: u64, max_age: u64) -> (Arc<CountingWrap>, DataKeys) {
    let key = Arc::new(CountingWrap::new(kek(1)));
    let bounds = DataKeyBounds {
        max_writes,
        max_age: Duration::from_secs(max_age),
    };
    (
        Arc::clone(&key),
        DataKeys::new(Keys::new(key), bounds, CacheBounds::default()),
    )
}

#[tokio::test]
async fn a_key_serves_the_maximum_number_of_writes() {
    let (counts, data_keys) = bounded_keys(3, 3600);
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(data_keys.for_write().await.unwrap().wrapping.clone());
    }
    assert!(made[0] == made[2] && made[2] != made[3] && made[3] == made[5] && made[5] != made[6]);
    assert_eq!(counts.wraps(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_key_serves_until_its_maximum_age() {
    let (counts, data_keys) = bounded_keys(100, 60);
    let first = data_keys.for_write().await.unwrap();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(
        data_keys.for_write().await.unwrap().wrapping,
        first.wrapping
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_ne!(
        data_keys.for_write().await.unwrap().wrapping,
        first.wrapping
    );
    assert_eq!(counts.wraps(), 2);
}

#[tokio::test]
async fn concurrent_callers_share_one_call() {
    let (counts, data_keys) = bounded_keys(100, 60);
    let writes = (0..16).map(|_| data_keys.for_write());
    let keys = futures_util::future::try_join_all(writes).await.unwrap();
    assert!(keys.iter().all(|k| k.wrapping == keys[0].wrapping));
    let (others, reader) = self::bounded_keys(1, 1);
    let reads = (0..16).map(|_| reader.open(&keys[0].wrapping));
    assert!(
        futures_util::future::try_join_all(reads)
            .await
            .unwrap()
            .iter()
            .all(|s| *s == keys[0].secret)
    );
    assert_eq!(counts.wraps(), 1);
    assert_eq!(others.unwraps(), 1);
}

#[tokio::test]
async fn only_labelled_keys_with_their_own_algorithm_are_accepted() {
    let (_, data_keys) = bounded_keys(100, 60);
    let raw = kek(1).wrap_key(&vec![5; 32].into()).await.unwrap();
    let wrapping = Wrapping {
        algorithm: "A256KW".into(),
        key_id: "kek1".into(),
        wrapped: raw.into(),
    };
    assert!(data_keys.open(&wrapping).await.is_err());
    let sound = data_keys.for_write().await.unwrap().wrapping.clone();
    assert!(
        data_keys
            .open(&Wrapping {
                algorithm: "A128KW".into(),
                ..sound.clone()
            })
            .await
            .is_err()
    );
    assert!(
        data_keys
            .open(&Wrapping {
                key_id: "kek2".into(),
                ..sound.clone()
            })
            .await
            .is_err()
    );
    assert!(data_keys.open(&sound).await.is_ok());
}

#[tokio::test]
async fn without_a_cache_every_read_unwraps() {
    let key = Arc::new(CountingWrap::new(kek(1)));
    let cache = CacheBounds {
        max_keys: 0,
        ..CacheBounds::default()
    };
    let data_keys = DataKeys::new(Keys::new(key.clone()), DataKeyBounds::default(), cache);
    let wrapping = data_keys.for_write().await.unwrap().wrapping.clone();
    for _ in 0..3 {
        data_keys.open(&wrapping).await.unwrap();
    }
    assert_eq!(key.unwraps(), 3);
}

/// The key service is asked once for a key that it refuses, and again after `failure_age`.
#[tokio::test(start_paused = true)]
async fn a_refused_key_is_not_requested_again_immediately() {
    let (counts, data_keys) = bounded_keys(100, 60);
    let garbage = Wrapping {
        algorithm: "A256KW".into(),
        key_id: "kek1".into(),
        wrapped: vec![1; 48].into(),
    };
    for _ in 0..3 {
        assert!(matches!(
            data_keys.open(&garbage).await,
            Err(Unreadable::Refused)
        ));
    }
    assert_eq!(counts.unwraps(), 1);
    let asked = (0..8).map(|_| data_keys.open(&garbage));
    assert!(
        futures_util::future::join_all(asked)
            .await
            .iter()
            .all(Result::is_err)
    );
    tokio::time::advance(Duration::from_secs(31)).await;
    assert!(data_keys.open(&garbage).await.is_err());
    assert_eq!(counts.unwraps(), 2);
}

/// A transient error of the key service is not recorded.
#[tokio::test]
async fn a_busy_key_service_is_called_again() {
    let (_, sound) = bounded_keys(100, 60);
    let wrapping = sound.for_write().await.unwrap().wrapping.clone();
    let keys = Keys::new(Arc::new(UnreliableWrap::new(kek(1), Outage::Busy)));
    let busy = DataKeys::new(keys, DataKeyBounds::default(), CacheBounds::default());
    for _ in 0..2 {
        let Err(Unreadable::Unavailable(error)) = busy.open(&wrapping).await else {
            panic!()
        };
        assert!(error.is_transient());
    }
    let keys = Keys::new(Arc::new(UnreliableWrap::new(kek(1), Outage::Forbidden)));
    let forbidden = DataKeys::new(keys, DataKeyBounds::default(), CacheBounds::default());
    assert!(matches!(
        forbidden.open(&wrapping).await,
        Err(Unreadable::Unavailable(_))
    ));
}

/// If one caller is cancelled, the other callers still get the result.
#[tokio::test]
async fn an_unwrap_survives_its_first_caller() {
    let (_, sound) = bounded_keys(100, 60);
    let key = sound.for_write().await.unwrap();
    let (counts, data_keys) = bounded_keys(100, 60);
    let mut first = Box::pin(data_keys.open(&key.wrapping));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut second = Box::pin(data_keys.open(&key.wrapping));
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    assert!(second.await.is_ok_and(|secret| secret == key.secret));
    assert_eq!(counts.unwraps(), 1);
    let garbage = Wrapping {
        wrapped: vec![2; 48].into(),
        ..key.wrapping.clone()
    };
    let mut abandoned = Box::pin(data_keys.open(&garbage));
    assert!(futures_util::poll!(&mut abandoned).is_pending());
    drop(abandoned);
    assert!(data_keys.open(&key.wrapping).await.is_ok());
}

/// Expired keys are dropped although the store is idle: unwrapped keys and the current key for writes.
#[tokio::test(start_paused = true)]
async fn expired_keys_are_dropped_in_an_idle_store() {
    let (_, other) = bounded_keys(100, 60);
    let wrapping = other.for_write().await.unwrap().wrapping.clone();
    let (_, data_keys) = bounded_keys(100, 24 * 3600);
    let opened = Arc::downgrade(&data_keys.open(&wrapping).await.unwrap());
    let written = Arc::downgrade(&data_keys.for_write().await.unwrap().secret);
    tokio::time::sleep(Duration::from_secs(3599)).await;
    assert!(opened.upgrade().is_some() && written.upgrade().is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(opened.upgrade().is_none() && written.upgrade().is_some());
    tokio::time::sleep(Duration::from_secs(23 * 3600)).await;
    assert!(written.upgrade().is_none());
}

/// The task that waits for a long-lived key is woken for a key that expires earlier.
#[tokio::test(start_paused = true)]
async fn a_key_that_expires_earlier_is_dropped_earlier() {
    let bounds = DataKeyBounds {
        max_writes: 100,
        max_age: Duration::from_secs(24 * 3600),
    };
    let data_keys = DataKeys::new(Keys::new(Arc::new(kek(1))), bounds, CacheBounds::default());
    let (_, other) = self::bounded_keys(100, 60);
    let wrapping = other.for_write().await.unwrap().wrapping.clone();
    let written = Arc::downgrade(&data_keys.for_write().await.unwrap().secret);
    // The cached copy of the current key expires after an hour; then the task waits until the end of the day.
    tokio::time::sleep(Duration::from_secs(3610)).await;
    let opened = Arc::downgrade(&data_keys.open(&wrapping).await.unwrap());
    tokio::time::sleep(Duration::from_secs(3600 - 15)).await;
    assert!(opened.upgrade().is_some());
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(opened.upgrade().is_none() && written.upgrade().is_some());
}

/// A dropped store keeps neither keys nor its task.
#[tokio::test(start_paused = true)]
async fn keys_are_dropped_with_their_store() {
    let (_, data_keys) = bounded_keys(100, 60);
    let secret = Arc::downgrade(&data_keys.for_write().await.unwrap().secret);
    tokio::task::yield_now().await;
    assert_eq!(
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks(),
        1
    );
    drop(data_keys);
    assert!(secret.upgrade().is_none());
    tokio::task::yield_now().await;
    assert_eq!(
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks(),
        0
    );
}
