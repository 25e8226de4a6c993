//! A process dies at every request of every path that changes a row which several entities share: a list, a
//! list in several rows or in blobs, a summary, a copy. Then another process recovers, and the index must be
//! what the entities say.

mod dead;
mod world;

use std::sync::Arc;

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
    let store = Arc::new(builder.durability(Durability::Relaxed).open().await?);
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

#[test]
fn every_shape_is_there() {
    let has = |wanted: fn(&Shape) -> bool| forms().iter().any(|Form { shape, .. }| wanted(shape));
    assert!(has(Shape::is_list) && has(Shape::needs_blobs));
    assert!(has(|s| matches!(s, Shape::Summary { .. })) && has(|s| matches!(s, Shape::Copy { .. })));
}
