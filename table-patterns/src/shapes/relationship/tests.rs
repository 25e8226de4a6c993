//! What a join cache keeps, and for how long.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::store::{OperationKind, Result, TableStore};
use table_core::typed::{Table, TableEntity};
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
    /// A table of so many airlines.
    async fn new(airlines: u32) -> Result<Self> {
        let rig = Self { store: Arc::default(), faults: FaultInjector::new(0), meter: RequestMeter::new() };
        let table = rig.table()?;
        table.create_if_missing().await?;
        for code in 0..airlines {
            table.insert(&Airline { code, planes: 1 }).await?;
        }
        Ok(rig)
    }

    fn table(&self) -> Result<Table<Airline>> {
        Table::new(Arc::clone(&self.store) as Arc<dyn TableStore>, "Airlines")
    }

    fn cache(&self, options: JoinOptions) -> Result<JoinCache<Airline>> {
        let faulty = Faulty::new(Arc::clone(&self.store) as Arc<dyn TableStore>, self.faults.clone());
        Ok(JoinCache::new(Table::new(Metered::new(faulty, self.meter.clone()), "Airlines")?, options))
    }

    /// The answers of reads of this kind wait for a second, those after the first.
    fn delay(&self, kind: OperationKind) {
        self.faults.add(FaultRule::new(Fault::DelayAnswer(Duration::from_secs(1))).on(kind).nth(1));
    }

    async fn change(&self, code: u32) -> Result<()> {
        self.table()?.upsert(&Airline { code, planes: 2 }).await.map(drop)
    }
}

async fn planes(cache: &JoinCache<Airline>, code: u32) -> Result<Option<i32>> {
    Ok(cache.get(Airline::key(code)?).await?.map(|airline| airline.planes))
}

#[tokio::test]
async fn it_keeps_no_more_than_it_is_told() -> Result<()> {
    let rig = Rig::new(50).await?;
    let cache = rig.cache(JoinOptions::default().with_entities(5))?;
    for code in 0..50 {
        assert_eq!(planes(&cache, code).await?, Some(1));
    }
    assert_eq!(cache.kept.settled(), 5);
    let all = rig.table()?.query();
    cache.load(&all).await?;
    assert_eq!(cache.kept.settled(), 5, "what is loaded counts too");
    assert_eq!(rig.cache(JoinOptions::default())?.load(&all).await?, 50);
    Ok(())
}

#[tokio::test]
async fn what_is_old_is_read_again() -> Result<()> {
    let rig = Rig::new(1).await?;
    let cache = rig.cache(JoinOptions::default().with_time_to_live(Duration::from_millis(20)))?;
    assert_eq!(planes(&cache, 0).await?, Some(1));
    rig.change(0).await?;
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(planes(&cache, 0).await?, Some(2));

    let lasting = rig.cache(JoinOptions::default().with_time_to_live(Duration::MAX))?;
    rig.meter.reset();
    assert_eq!((planes(&lasting, 0).await?, planes(&lasting, 0).await?), (Some(2), Some(2)));
    assert_eq!(rig.meter.total(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_forgets_sees_the_change_though_others_were_reading() -> Result<()> {
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
        assert_eq!((before?, after?), (Some(1), Some(2)), "clear: {clears}");
        assert_eq!(rig.meter.total(), 2);
        assert_eq!(planes(&cache, 0).await?, Some(2), "what was read before is not kept");
        assert_eq!(rig.meter.total(), 2);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_load_brings_back_nothing_older() -> Result<()> {
    for clears in [false, true] {
        let rig = Rig::new(3).await?;
        let cache = rig.cache(JoinOptions::default())?;
        rig.delay(OperationKind::Query);
        let all = Table::<Airline>::new(cache.table.store().clone(), "Airlines")?.query();
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
        assert_eq!((loaded?, read?), (if clears { 0 } else { 1 }, Some(2)));
        assert_eq!((planes(&cache, 0).await?, planes(&cache, 1).await?), (Some(2), Some(2)));
        assert_eq!(cache.load(&all).await?, 3, "the next load brings everything");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_the_read_to_others() -> Result<()> {
    let rig = Rig::new(1).await?;
    let cache = rig.cache(JoinOptions::default())?;
    rig.delay(OperationKind::Get);
    let wait = Duration::from_millis(500);
    let impatient = tokio::time::timeout(wait, planes(&cache, 0));
    let (gone, patient) = join(impatient, planes(&cache, 0)).await;
    assert!(gone.is_err());
    assert_eq!((patient?, rig.meter.total()), (Some(1), 2));

    rig.delay(OperationKind::Get);
    cache.clear();
    assert!(tokio::time::timeout(wait, planes(&cache, 0)).await.is_err());
    assert_eq!((planes(&cache, 0).await?, planes(&cache, 0).await?), (Some(1), Some(1)));
    Ok(())
}
