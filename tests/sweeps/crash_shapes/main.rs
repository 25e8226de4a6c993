//! A process crashes at every request of every path that changes a row of several entities: a list in one row,
//! in several rows or in blobs, a summary, a copy. Then another process recovers, and the index must agree with
//! the entities.

mod crashing_blobs;
mod world;

use std::sync::Arc;

use conformance::azurite::Azurite;
use conformance::real_time::RealTimeStore;
use futures_util::future::try_join_all;
use table_azure::AzureTableStore;
use table_core::adapter::CrashPoint;
use table_core::memory::MemoryStore;
use table_core::store::{Error, Result, TableStore};
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
    let store = RealTimeStore::around(builder.durability(Durability::Relaxed).open().await?);
    let (forms, mut rng, mut number) = (forms(), fastrand::Rng::with_seed(11), 0);
    // Every path of every form; the crash points alternate.
    for (f, form) in forms.iter().enumerate() {
        for (p, path) in PATHS.into_iter().enumerate() {
            let mut request = rng.u64(1..=8);
            while request > 0 {
                number += 1;
                let world = World::new(store.clone() as Arc<dyn TableStore>, form, number).await?;
                if world
                    .crash(path, request, CrashPoint::ALL[(f + p) % 2])
                    .await?
                {
                    break;
                }
                // The path has fewer requests.
                request /= 2;
            }
            assert!(request > 0, "{path:?} of {form:?} sends no request");
        }
    }
    Ok(())
}

/// All forms run concurrently. The clock of the test stops while a request runs, so that no lease is waited for.
#[tokio::test(start_paused = true)]
async fn crashes_on_azurite() -> Result<()> {
    let text = Azurite::shared().connection_string();
    let store: Arc<dyn TableStore> =
        RealTimeStore::around(AzureTableStore::from_connection_string(&text, None)?);
    let (forms, mut rng) = (forms(), fastrand::Rng::with_seed(5));
    // Every form, and every path with both crash points.
    let both = PATHS.len() * CrashPoint::ALL.len();
    assert!(forms.len() <= both, "a form did not crash");
    let deaths = (0..both).map(|n| {
        let (form, path, point) = (
            &forms[n % forms.len()],
            PATHS[n % PATHS.len()],
            CrashPoint::ALL[n / PATHS.len()],
        );
        let (store, mut request) = (store.clone(), rng.u64(1..=5));
        async move {
            while !World::new(store.clone(), form, 10 * n + request as usize)
                .await?
                .crash(path, request, point)
                .await?
            {
                // The path has fewer requests.
                request /= 2;
                assert!(request > 0, "{path:?} of {form:?} sends no request");
            }
            eprintln!("{form:?}: {path:?}, dead at request {request}, {point:?}");
            Ok::<_, Error>(())
        }
    });
    try_join_all(deaths).await.map(drop)
}

#[test]
fn the_forms_include_every_shape() {
    let has = |wanted: fn(&Shape) -> bool| forms().iter().any(|Form { shape, .. }| wanted(shape));
    assert!(has(Shape::is_list));
    assert!(has(Shape::needs_blobs));
    assert!(has(|s| matches!(s, Shape::Summary { .. })));
    assert!(has(|s| matches!(s, Shape::Copy { .. })));
}
