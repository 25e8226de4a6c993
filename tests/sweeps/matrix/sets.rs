//! Set operations × every layout × every store, in plaintext and encrypted, over the rows of several program versions. Each row is
//! written with its entries, unique values and blobs and keeps what its writer does not know, or is a failure of its own and stays.
//! `layouts` has the set operations of one program, and of programs past the indexes of another.

use table_core::model::{Entity, ValueRef};
use table_core::store::BulkSummary;

use crate::programs::Program;
use crate::revisions::{Revision, on_every_layout};
use crate::world::{Backends, World};

on_every_layout!(versions);

/// The stored rows with these schema versions: those of the entities, without index entries.
async fn of_versions(world: &World, versions: &[i32]) -> Vec<Entity> {
    let (mut rows, _) = world.raw().rows().await;
    rows.retain(|row| {
        let version = match row.get("EntityVersion") {
            Some(ValueRef::Int32(version)) => version,
            _ => 1,
        };
        row.get("EntityType").is_some() && !row.is_index_entry() && versions.contains(&version)
    });
    rows
}

fn counts(summary: &BulkSummary) -> (u64, u64, u64) {
    (summary.written, summary.unchanged, summary.failed)
}

async fn versions<A, B, C>(backends: Backends, sealed: bool)
where
    A: Program<Of: Revision>,
    B: Program<Of: Revision>,
    C: Program<Of: Revision>,
{
    let what = std::any::type_name::<C>();
    let world = World::new(backends, sealed).await;
    // The latest program declares the indexes.
    let newest = C::open(&world).await.unwrap();
    let middle = B::open(&world).await.unwrap();
    let oldest = A::open(&world).await.unwrap();
    for r in [1, 2] {
        oldest.put(&A::Of::new(r)).await.unwrap();
    }
    middle.put(&B::Of::new(3)).await.unwrap();
    newest.put(&C::Of::new(4)).await.unwrap();

    // Version 1 writes its own rows. It cannot read the later ones: each is a failure, and stays.
    let later = of_versions(&world, &[2, 3]).await;
    let renamed = oldest.rename_set("one").await.unwrap();
    assert_eq!(counts(&renamed), (2, 0, 2), "{what}: {renamed:?}");
    let errors = renamed
        .failures
        .iter()
        .filter_map(|one| one.result.as_ref().err());
    assert!(
        errors
            .clone()
            .all(|error| error.to_string().contains("version")),
        "{what}: {renamed:?}"
    );
    assert_eq!(
        of_versions(&world, &[2, 3]).await,
        later,
        "{what}: version 1 wrote a later row"
    );
    assert_eq!(
        oldest.read(1).await.unwrap().unwrap().name(),
        "one1",
        "{what}"
    );

    // Version 2 converts the rows of version 1. A row of version 3 stays one, with what only version 3 knows.
    let renamed = middle.rename_set("two").await.unwrap();
    assert_eq!(counts(&renamed), (4, 0, 0), "{what}: {renamed:?}");
    assert_eq!(of_versions(&world, &[1]).await, [], "{what}");
    for r in 1..=4 {
        let read = newest.read(r).await.unwrap().unwrap();
        assert_eq!(
            (read.name(), read.secret()),
            (&*format!("two{r}"), &*format!("SECRET{r}")),
            "{what}"
        );
        assert!(
            !format!("{read:?}").contains("later: Some") || r == 4,
            "{what}: {read:?}"
        );
    }
    assert!(
        format!("{:?}", newest.read(4).await.unwrap()).contains("later: Some"),
        "{what}"
    );
    newest.check().await;
    // What has the name already is not written.
    let again = middle.rename_set("two").await.unwrap();
    assert_eq!(counts(&again), (0, 4, 0), "{what}: {again:?}");
    assert_eq!(again.requests, 0, "{what}");
    world.check(what).await;

    // A deletion by version 1 leaves the later rows; one by version 3 removes rows of all versions, with everything that belongs to them.
    oldest.put(&A::Of::new(5)).await.unwrap();
    let deleted = oldest.delete_set().await.unwrap();
    assert_eq!(counts(&deleted), (1, 0, 4), "{what}: {deleted:?}");
    newest.check().await;
    oldest.put(&A::Of::new(6)).await.unwrap();
    assert_eq!(newest.numbers().await.unwrap(), [1, 2, 3, 4, 6], "{what}");
    let deleted = newest.delete_set().await.unwrap();
    assert_eq!(counts(&deleted), (5, 0, 0), "{what}: {deleted:?}");
    let (rows, blobs) = world.rows().await;
    assert_eq!(rows, [], "{what}");
    assert!(blobs.is_empty(), "{what}: {} blobs", blobs.len());
    newest.check().await;
    // Unique values are free.
    newest.put(&C::Of::new(4)).await.unwrap();
    assert_eq!(newest.read(4).await.unwrap(), Some(C::Of::new(4)), "{what}");
}
