//! Capacity, age and concurrent reads of the join cache.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::store::{OperationKind, Result, TableStore};
use table_core::typed::TableEntity;

use crate::{Database, Table};
use tokio::time::sleep;

use super::{JoinCache, JoinOptions};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(partition_key = "airline", row_key = "{code:04}")]
struct Airline {
    code: u32,
    planes: i32,
}

struct Rig {
    store: Arc<MemoryStore>,
    faults: FaultInjector,
    meter: RequestMeter,
}

impl Rig {
    /// A table with this number of airlines.
    async fn new(airlines: u32) -> Result<Self> {
        let rig = Self {
            store: Arc::default(),
            faults: FaultInjector::new(0),
            meter: RequestMeter::new(),
        };
        let table = rig.table()?;
        table.declare().await?;
        for code in 0..airlines {
            table.insert(&Airline { code, planes: 1 }).await?;
        }
        Ok(rig)
    }

    fn table(&self) -> Result<Table<Airline>> {
        Database::new(Arc::clone(&self.store) as Arc<dyn TableStore>).table("Airlines")
    }

    fn cache(&self, options: JoinOptions) -> Result<JoinCache<Airline>> {
        let faulty = Faulty::new(
            Arc::clone(&self.store) as Arc<dyn TableStore>,
            self.faults.clone(),
        );
        Ok(JoinCache::new(
            Database::new(Metered::new(faulty, self.meter.clone())).table("Airlines")?,
            options,
        ))
    }

    /// Delays the answer of the next read of this kind by a second.
    fn delay(&self, kind: OperationKind) {
        self.faults.add(
            FaultRule::new(Fault::DelayAnswer(Duration::from_secs(1)))
                .on(kind)
                .nth(1),
        );
    }

    async fn change(&self, code: u32) -> Result<()> {
        self.table()?
            .upsert(&Airline { code, planes: 2 })
            .await
            .map(drop)
    }
}

async fn planes(cache: &JoinCache<Airline>, code: u32) -> Result<Option<i32>> {
    Ok(cache
        .get(Airline::key(code)?)
        .await?
        .map(|airline| airline.planes))
}

#[tokio::test]
async fn the_cache_keeps_at_most_its_capacity() -> Result<()> {
    let rig = Rig::new(50).await?;
    let cache = rig.cache(JoinOptions::default().with_entities(5))?;
    for code in 0..50 {
        assert_eq!(planes(&cache, code).await?, Some(1));
    }
    assert_eq!(cache.cached.len(), 5);
    let all = rig.table()?.query();
    cache.load(&all).await?;
    assert_eq!(cache.cached.len(), 5, "loaded entities count too");
    assert_eq!(rig.cache(JoinOptions::default())?.load(&all).await?, 50);
    Ok(())
}

#[tokio::test]
async fn an_old_value_is_read_again() -> Result<()> {
    let rig = Rig::new(1).await?;
    let cache = rig.cache(JoinOptions::default().with_time_to_live(Duration::from_millis(20)))?;
    assert_eq!(planes(&cache, 0).await?, Some(1));
    rig.change(0).await?;
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(planes(&cache, 0).await?, Some(2));

    let lasting = rig.cache(JoinOptions::default().with_time_to_live(Duration::MAX))?;
    rig.meter.reset();
    assert_eq!(planes(&lasting, 0).await?, Some(2), "the first read");
    assert_eq!(planes(&lasting, 0).await?, Some(2), "from the cache");
    assert_eq!(rig.meter.total(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn after_forget_a_read_in_flight_is_not_used() -> Result<()> {
    for clears in [false, true] {
        let rig = Rig::new(1).await?;
        let cache = rig.cache(JoinOptions::default())?;
        rig.delay(OperationKind::Get);
        let changed = async {
            sleep(Duration::from_millis(500)).await;
            rig.change(0).await?;
            if clears {
                cache.clear();
            } else {
                cache.forget(Airline::key(0u32)?);
            }
            planes(&cache, 0).await
        };
        let (before, after) = join(planes(&cache, 0), changed).await;
        assert_eq!(before?, Some(1), "clear: {clears}");
        assert_eq!(after?, Some(2), "clear: {clears}");
        assert_eq!(rig.meter.total(), 2);
        assert_eq!(
            planes(&cache, 0).await?,
            Some(2),
            "the earlier read is not cached"
        );
        assert_eq!(rig.meter.total(), 2);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_load_does_not_replace_newer_values() -> Result<()> {
    for clears in [false, true] {
        let rig = Rig::new(3).await?;
        let cache = rig.cache(JoinOptions::default())?;
        rig.delay(OperationKind::Query);
        let all = Database::new(cache.table.store().clone())
            .table::<Airline>("Airlines")?
            .query();
        let changed = async {
            sleep(Duration::from_millis(500)).await;
            rig.change(0).await?;
            rig.change(1).await?;
            if clears {
                cache.clear();
            } else {
                cache.forget(Airline::key(0u32)?);
            }
            planes(&cache, 1).await
        };
        let (loaded, read) = join(cache.load(&all), changed).await;
        assert_eq!(loaded?, if clears { 0 } else { 1 }, "clear: {clears}");
        assert_eq!(read?, Some(2), "clear: {clears}");
        assert_eq!(planes(&cache, 0).await?, Some(2), "clear: {clears}");
        assert_eq!(planes(&cache, 1).await?, Some(2), "clear: {clears}");
        assert_eq!(
            cache.load(&all).await?,
            3,
            "the next load adds all entities"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_caller_leaves_the_read_to_others() -> Result<()> {
    let rig = Rig::new(1).await?;
    let cache = rig.cache(JoinOptions::default())?;
    rig.delay(OperationKind::Get);
    let wait = Duration::from_millis(500);
    let impatient = tokio::time::timeout(wait, planes(&cache, 0));
    let (cancelled, patient) = join(impatient, planes(&cache, 0)).await;
    assert!(cancelled.is_err());
    assert_eq!(patient?, Some(1));
    assert_eq!(rig.meter.total(), 2);

    rig.delay(OperationKind::Get);
    cache.clear();
    assert!(tokio::time::timeout(wait, planes(&cache, 0)).await.is_err());
    assert_eq!(planes(&cache, 0).await?, Some(1), "a new read");
    assert_eq!(planes(&cache, 0).await?, Some(1), "from the cache");
    Ok(())
}
