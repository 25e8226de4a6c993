use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::testing::{CountingWrap, kek};
use crate::{KeyWrap, Keys};

fn keeper(max_writes: u64, max_age: u64) -> (Arc<CountingWrap>, DataKeys) {
    let key = Arc::new(CountingWrap::new(kek(1)));
    let bounds = DataKeyBounds { max_writes, max_age: Duration::from_secs(max_age) };
    (Arc::clone(&key), DataKeys::new(Keys::new(key), bounds, CacheBounds::default()))
}

#[tokio::test]
async fn a_key_serves_as_many_writes_as_it_may() {
    let (counts, keeper) = keeper(3, 3600);
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(keeper.for_write().await.unwrap().wrapping.clone());
    }
    assert!(made[0] == made[2] && made[2] != made[3] && made[3] == made[5] && made[5] != made[6]);
    assert_eq!(counts.wraps(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_key_serves_as_long_as_it_may() {
    let (counts, keeper) = keeper(100, 60);
    let first = keeper.for_write().await.unwrap();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(keeper.for_write().await.unwrap().wrapping, first.wrapping);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_ne!(keeper.for_write().await.unwrap().wrapping, first.wrapping);
    assert_eq!(counts.wraps(), 2);
}

#[tokio::test]
async fn one_call_serves_all_who_wait() {
    let (counts, keeper) = keeper(100, 60);
    let writes = (0..16).map(|_| keeper.for_write());
    let keys = futures_util::future::try_join_all(writes).await.unwrap();
    assert!(keys.iter().all(|k| k.wrapping == keys[0].wrapping));
    let (others, reader) = self::keeper(1, 1);
    let reads = (0..16).map(|_| reader.open(&keys[0].wrapping));
    assert!(futures_util::future::try_join_all(reads).await.unwrap().iter().all(|s| *s == keys[0].secret));
    assert_eq!((counts.wraps(), others.unwraps()), (1, 1));
}

#[tokio::test]
async fn only_labelled_keys_under_their_own_algorithm_are_taken() {
    let (_, keeper) = keeper(100, 60);
    let raw = kek(1).wrap_key(&vec![5; 32].into()).await.unwrap();
    let wrapping = Wrapping { algorithm: "A256KW".into(), key_id: "kek1".into(), wrapped: raw.into() };
    assert!(keeper.open(&wrapping).await.is_err());
    let sound = keeper.for_write().await.unwrap().wrapping.clone();
    assert!(keeper.open(&Wrapping { algorithm: "A128KW".into(), ..sound.clone() }).await.is_err());
    assert!(keeper.open(&Wrapping { key_id: "kek2".into(), ..sound.clone() }).await.is_err());
    assert!(keeper.open(&sound).await.is_ok());
}

#[tokio::test]
async fn a_cache_of_none_unwraps_each_time() {
    let key = Arc::new(CountingWrap::new(kek(1)));
    let cache = CacheBounds { max_keys: 0, ..CacheBounds::default() };
    let keeper = DataKeys::new(Keys::new(key.clone()), DataKeyBounds::default(), cache);
    let wrapping = keeper.for_write().await.unwrap().wrapping.clone();
    for _ in 0..3 {
        keeper.open(&wrapping).await.unwrap();
    }
    assert_eq!(key.unwraps(), 3);
}
