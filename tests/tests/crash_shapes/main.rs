//! A process dies at every request of every path that changes a row which several entities share: a list, a
//! list in several rows or in blobs, a summary, a copy. Then another process recovers, and the index must be
//! what the entities say.

mod dead;
mod world;

use std::sync::Arc;

use conformance::azurite::Azurite;
use conformance::elsewhere::Elsewhere;
use futures_util::future::try_join_all;
use table_azure::AzureTableStore;
use table_core::adapter::CrashPoint;
use table_core::memory::MemoryStore;
use table_core::store::{Result, TableStore};
use table_embedded::{Durability, EmbeddedStore};
use table_patterns::index::Shape;

use crate::world::{Form, PATHS, World, forms};

#[tokio::test(start_paused = true)]
async fn crashes_in_memory() -> Result<()> {
    for form in forms() {
        let mut crashes = 0;
        for path in PATHS {
            for point in CrashPoint::ALL {
                for request in 1.. {
                    let world = World::new(Arc::new(MemoryStore::new()), &form, 0).await?;
                    if !world.crash(path, request, point).await? {
                        break;
                    }
                    crashes += 1;
                }
            }
        }
        eprintln!("{crashes} crashes of {form:?}");
        assert!(crashes > 60, "only {crashes} of {form:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn crashes_in_the_embedded_store() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let builder = EmbeddedStore::builder(directory.path().join("store"));
    let store = Elsewhere::around(builder.durability(Durability::Relaxed).open().await?);
    let mut rng = fastrand::Rng::with_seed(11);
    let (forms, mut crashes) = (forms(), 0);
    for number in 0..60 {
        let (form, path) = (&forms[rng.usize(..forms.len())], PATHS[rng.usize(..PATHS.len())]);
        let world = World::new(store.clone() as Arc<dyn TableStore>, form, number).await?;
        let point = CrashPoint::ALL[rng.usize(..2)];
        crashes += usize::from(world.crash(path, rng.u64(1..=8), point).await?);
    }
    eprintln!("{crashes} crashes in the embedded store");
    assert!(crashes >= 30, "only {crashes}");
    Ok(())
}

/// Together, since they wait most of the time.
#[tokio::test]
async fn crashes_on_azurite() -> Result<()> {
    let emulator = tokio::task::spawn_blocking(Azurite::shared).await.expect("the emulator runs");
    let store = AzureTableStore::from_connection_string(&emulator.connection_string(), None)?;
    let store: Arc<dyn TableStore> = Arc::new(store);
    let (forms, mut rng) = (forms(), fastrand::Rng::with_seed(5));
    let cases: Vec<_> = (0..16)
        .map(|n| (n, &forms[n % forms.len()], PATHS[rng.usize(..PATHS.len())], rng.u64(1..=5), rng.bool()))
        .collect();
    let crashes = cases.into_iter().map(|(number, form, path, request, before)| {
        let store = store.clone();
        let point = if before { CrashPoint::Before } else { CrashPoint::After };
        async move { World::new(store, form, number).await?.slow().crash(path, request, point).await }
    });
    let crashes: Vec<bool> = try_join_all(crashes).await?;
    let crashes = crashes.into_iter().filter(|crashed| *crashed).count();
    eprintln!("{crashes} crashes on Azurite");
    assert!(crashes >= 8, "only {crashes}");
    Ok(())
}

#[test]
fn every_shape_is_there() {
    let has = |wanted: fn(&Shape) -> bool| forms().iter().any(|Form { shape, .. }| wanted(shape));
    assert!(has(Shape::is_list) && has(Shape::needs_blobs));
    assert!(has(|s| matches!(s, Shape::Summary { .. })) && has(|s| matches!(s, Shape::Copy { .. })));
}
