//! Claims of unique values whose owners have expired.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use table_core::adapter::Faulty;
use table_core::prelude::*;

use super::expiry::{Indexed, LargeIndexed, World, assert_in_step, open};
use crate::fault_runs::run_with_faults;
use crate::wrappers::HookedStore;
use crate::{Clock, Harness};

const SECOND: i64 = Clock::SECOND;
const DAY: i64 = Clock::DAY;

/// A claimant of a value, in the partition or elsewhere, removes the expired owner with all that belongs to it; a value of a deleted entity is kept.
pub(super) async fn claimants_remove_expired_owners(harness: &Harness) {
    let world = World::new(harness).await;
    let table = open!(world, Indexed);
    let until = Some(world.clock.after(SECOND));
    table
        .insert(&Indexed::new(1, until))
        .await
        .expect("a new entity");
    let claimant = Indexed {
        name: Some("name1".into()),
        ..Indexed::new(2, None)
    };
    assert!(
        table
            .insert(&claimant)
            .await
            .expect_err("taken")
            .is_unique_violation()
    );
    world.clock.advance(SECOND);
    table.insert(&claimant).await.expect("the value is free");
    let everything = table.clone().with_hidden();
    assert!(
        everything
            .get(Indexed::key("p", 1).expect("a key"))
            .await
            .expect("a read")
            .is_none()
    );
    assert_in_step(&table, "after a claim").await;
    assert_eq!(
        table
            .by(Indexed::by_name("name1"))
            .first()
            .await
            .expect("a lookup")
            .map(|found| found.r),
        Some(2)
    );

    // An update claims too; from another partition, only the value of the whole table is in the way.
    table
        .insert(&Indexed::new(3, Some(world.clock.now())))
        .await
        .expect("a new entity");
    let far = Indexed {
        p: "q".into(),
        ..Indexed::new(4, None)
    };
    table.insert(&far).await.expect("a new entity");
    let key = Indexed::key("q", 4).expect("a key");
    let rename = |entity: &mut Indexed| {
        entity.name = Some("name3".into());
        Ok(())
    };
    table.update(key, rename).await.expect("the value is free");
    assert!(
        everything
            .get(Indexed::key("p", 3).expect("a key"))
            .await
            .expect("a read")
            .is_none()
    );
    assert_in_step(&table, "after an update").await;

    // A deleted entity keeps its value until it was kept long enough.
    table
        .insert(&Indexed::new(5, None))
        .await
        .expect("a new entity");
    table
        .soft_delete(Indexed::key("p", 5).expect("a key"))
        .await
        .expect("a deletion");
    let claimant = Indexed {
        name: Some("name5".into()),
        ..Indexed::new(6, None)
    };
    assert!(
        table
            .insert(&claimant)
            .await
            .expect_err("kept")
            .is_unique_violation()
    );
    world.clock.advance(7 * DAY);
    table.insert(&claimant).await.expect("the value is free");
    assert_in_step(&table, "after a deletion").await;
}

/// The blobs of an owner go with it.
pub(super) async fn claimants_remove_the_blobs_of_owners(harness: &Harness) {
    let world = World::new(harness).await;
    let table = open!(world, LargeIndexed);
    table
        .insert(&LargeIndexed::new(1, Some(world.clock.now())))
        .await
        .expect("a new entity");
    assert_eq!(world.blob_count().await, 1);
    let claimant = LargeIndexed {
        name: Some("name1".into()),
        ..LargeIndexed::new(2, None)
    };
    table.insert(&claimant).await.expect("the value is free");
    assert_eq!(
        table
            .get(LargeIndexed::key("p", 2).expect("a key"))
            .await
            .expect("a read"),
        Some(claimant)
    );
    table.flush().await;
    assert_eq!(world.blob_count().await, 1);
    // The key of an expired entity.
    table
        .insert(&LargeIndexed::new(3, Some(world.clock.now())))
        .await
        .expect("a new entity");
    table
        .insert(&LargeIndexed::new(3, None))
        .await
        .expect("the key is free");
    table.flush().await;
    assert_eq!(world.blob_count().await, 2);
}

/// At each request of a claim, the owner is renewed: one of the two has the value afterwards, and only one.
pub(super) async fn a_claim_and_a_renewal_exclude_each_other(harness: &Harness) {
    let (mut renewed, mut claimed) = (0, 0);
    for request in 1.. {
        let world = World::without_blobs(harness);
        let table = open!(world, Indexed);
        table
            .insert(&Indexed::new(1, Some(world.clock.now())))
            .await
            .expect("a new entity");
        let (others, until) = (table.clone().with_hidden(), world.clock.after(DAY));
        let done = Arc::new(AtomicU32::new(0));
        let flag = Arc::clone(&done);
        let renew = async move {
            let renew = |entity: &mut Indexed| {
                entity.until = Some(until);
                Ok(())
            };
            let renewed = others
                .update(Indexed::key("p", 1).expect("a key"), renew)
                .await
                .is_ok();
            flag.store(1 + u32::from(renewed), Ordering::Relaxed);
        };
        let store = Arc::new(HookedStore::unarmed(Arc::clone(&world.store), renew));
        let claimant = world
            .indexed(&(store.clone() as Arc<dyn TableStore>))
            .await
            .expect("a table");
        store.arm(request);
        let new = Indexed {
            name: Some("name1".into()),
            ..Indexed::new(2, None)
        };
        let inserted = claimant.insert(&new).await;
        if !store.has_run() {
            inserted.expect("nothing was in the way");
            break;
        }
        let owner_lives = done.load(Ordering::Relaxed) == 2;
        let what = format!("renewed before request {request}: {inserted:?}");
        if owner_lives {
            assert!(
                inserted
                    .expect_err("the owner was renewed")
                    .is_unique_violation(),
                "{what}"
            );
            renewed += 1;
        } else {
            inserted.unwrap_or_else(|error| panic!("{what}: {error}"));
            claimed += 1;
        }
        claimant.flush().await;
        assert_in_step(&table, &what).await;
        let holder = table
            .by(Indexed::by_name("name1"))
            .first()
            .await
            .expect("a lookup");
        assert_eq!(
            holder.map(|found| found.r),
            Some(if owner_lives { 1 } else { 2 }),
            "{what}"
        );
    }
    assert!(renewed > 0 && claimed > 0, "{renewed} and {claimed}");
}

/// At each request of a claim, another claimant claims the same value: one gets it.
pub(super) async fn one_of_two_claimants_gets_the_value(harness: &Harness) {
    for request in 1.. {
        let world = World::without_blobs(harness);
        let table = open!(world, Indexed);
        table
            .insert(&Indexed::new(1, Some(world.clock.now())))
            .await
            .expect("a new entity");
        let (other, done) = (table.clone(), Arc::new(AtomicU32::new(0)));
        let flag = Arc::clone(&done);
        let claim = async move {
            let new = Indexed {
                name: Some("name1".into()),
                ..Indexed::new(3, None)
            };
            flag.store(
                1 + u32::from(other.insert(&new).await.is_ok()),
                Ordering::Relaxed,
            );
        };
        let store = Arc::new(HookedStore::unarmed(Arc::clone(&world.store), claim));
        let claimant = world
            .indexed(&(store.clone() as Arc<dyn TableStore>))
            .await
            .expect("a table");
        store.arm(request);
        let new = Indexed {
            name: Some("name1".into()),
            ..Indexed::new(2, None)
        };
        let inserted = claimant.insert(&new).await;
        if !store.has_run() {
            inserted.expect("nothing was in the way");
            break;
        }
        let what = format!("another claim before request {request}: {inserted:?}");
        let winners = u32::from(inserted.is_ok()) + done.load(Ordering::Relaxed) - 1;
        assert_eq!(winners, 1, "{what}");
        claimant.flush().await;
        assert_in_step(&table, &what).await;
        let holder = table
            .by(Indexed::by_name("name1"))
            .first()
            .await
            .expect("a lookup");
        assert_eq!(
            holder.map(|found| found.r),
            Some(if inserted.is_ok() { 2 } else { 3 }),
            "{what}"
        );
    }
}

/// A claim that fails at any request leaves the owner or the claimant, and everything in step after a recovery.
pub(super) async fn a_claim_can_fail_at_any_request(harness: &Harness) {
    run_with_faults(harness, "a claim", async |run| {
        let world = World::without_blobs(harness);
        let table = open!(world, Indexed);
        table
            .insert(&Indexed::new(1, Some(world.clock.now())))
            .await
            .expect("a new entity");
        let faulty: Arc<dyn TableStore> =
            Arc::new(Faulty::new(Arc::clone(&world.store), run.faults.clone()));
        let claimant = world.indexed(&faulty).await.expect("a table");
        run.begin();
        let new = Indexed {
            name: Some("name1".into()),
            ..Indexed::new(2, None)
        };
        let inserted = claimant.insert(&new).await;
        run.end();
        if run.has_no_fault() {
            inserted.expect("no fault");
        }
        // Another process finishes or gives up what the claim has begun, and claims in turn.
        for _ in 0..2 {
            let unique = std::slice::from_ref(&world.table);
            table
                .entities()
                .await
                .expect("an open table")
                .journal()
                .sweep(unique, Duration::ZERO)
                .await
                .expect("a sweep");
        }
        let next = Indexed {
            name: Some("name1".into()),
            ..Indexed::new(3, None)
        };
        let taken = table
            .get(Indexed::key("p", 2).expect("a key"))
            .await
            .expect("a read")
            .is_some();
        assert_eq!(table.insert(&next).await.is_ok(), !taken, "{run}");
        assert_in_step(&table, &run.to_string()).await;
        let holder = table
            .by(Indexed::by_name("name1"))
            .first()
            .await
            .expect("a lookup");
        assert_eq!(
            holder.map(|found| found.r),
            Some(if taken { 2 } else { 3 }),
            "{run}"
        );
    })
    .await;
}
