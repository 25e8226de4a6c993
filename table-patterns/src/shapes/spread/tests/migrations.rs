use std::sync::Arc;

use table_core::adapter::CrashPoint;
use table_core::model::{IfMatch, Ticks};
use table_core::store::{OperationKind, Result};
use table_core::typed::{Spread, TableEntity};
use tokio::task::JoinSet;

use super::{Event, Rig, Salted, Wider};
use crate::spread::SpreadTable;

const ROWS: u32 = 40;

async fn with_events() -> Result<Rig> {
    let rig = Rig::new().await?;
    let events = rig.open::<Event>()?;
    for number in 0..ROWS {
        events.insert(&Event::new(number, "old")).await?;
    }
    Ok(rig)
}

async fn filled() -> Result<(Rig, SpreadTable<Wider>)> {
    let rig = with_events().await?;
    let wider = rig.open::<Wider>()?.with_previous(4);
    // The first write tells the manifest the new number of buckets; it leaves the row where it is.
    wider.upsert(&Wider::new(0, "old")).await?;
    rig.meter.reset();
    Ok((rig, wider))
}

/// Every entity is there once, under its new bucket alone.
async fn assert_moved(rig: &Rig, texts: &str) -> Result<()> {
    let wider = rig.open::<Wider>()?;
    let all: Vec<_> = wider
        .query()
        .partition(Wider::partition("1")?)
        .all()
        .await?;
    assert!(all.iter().map(|event| event.number).eq(0..ROWS), "{texts}");
    assert_eq!(rig.entities().await?.len(), ROWS as usize, "{texts}");
    Ok(())
}

#[tokio::test]
async fn everything_works_while_rows_are_where_they_were() -> Result<()> {
    let (rig, wider) = filled().await?;
    let place = |number: u32| -> Result<bool> {
        Ok(wider
            .previous_key(Wider::key("1", number)?.key())?
            .is_some())
    };
    let moved: Vec<u32> = (0..ROWS).filter(|number| place(*number).unwrap()).collect();
    assert!(moved.len() > 20);
    let number = moved[0];
    let key = Wider::key("1", number)?;

    assert_eq!(wider.get(&key).await?.unwrap().text, "old");
    assert_eq!(rig.meter.total(), 2);
    assert_eq!(
        wider
            .get(Wider::key("1", moved_from(&wider, 100)?)?)
            .await?,
        None
    );
    assert_eq!(rig.meter.total(), 5);
    assert!(
        wider
            .insert(&Wider::new(number, "new"))
            .await
            .unwrap_err()
            .is_already_exists()
    );
    wider.upsert(&Wider::new(number, "new")).await?;
    wider
        .update(&key, |event| {
            event.text.push('!');
            Ok(())
        })
        .await?;
    assert_eq!(wider.get(&key).await?.unwrap().text, "new!");
    let all: Vec<_> = wider
        .query()
        .partition(Wider::partition("1")?)
        .all()
        .await?;
    assert!(all.iter().map(|event| event.number).eq(0..ROWS));
    wider.delete(&key, IfMatch::Any).await?;
    assert_eq!(wider.get(&key).await?, None);
    wider.insert(&Wider::new(number, "again")).await?;

    let done = wider.migrate().await?;
    assert!(done.looked >= u64::from(ROWS));
    assert_eq!(done.moved, moved.len() as u64 - 1);
    assert_eq!(wider.migrate().await?.moved, 0);
    assert_moved(&rig, "migrated").await
}

/// A number from `from` on that has another place before.
fn moved_from(wider: &SpreadTable<Wider>, from: u32) -> Result<u32> {
    for number in from.. {
        if wider
            .previous_key(Wider::key("1", number)?.key())?
            .is_some()
        {
            return Ok(number);
        }
    }
    unreachable!()
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_dies_is_run_again() -> Result<()> {
    for point in CrashPoint::ALL {
        for request in 1.. {
            let (rig, _) = filled().await?;
            let dying = Rig::on(Arc::clone(&rig.store));
            dying.faults.crash_at(request, point);
            let died = dying
                .open::<Wider>()?
                .with_previous(4)
                .migrate()
                .await
                .is_err();
            let wider = rig.open::<Wider>()?.with_previous(4);
            let all: Vec<_> = wider
                .query()
                .partition(Wider::partition("1")?)
                .all()
                .await?;
            assert!(all.iter().all(|event| event.text == "old") && all.len() == ROWS as usize);
            if !died {
                break;
            }
            // What is half moved cannot be deleted; what is deleted does not come back.
            let gone = Wider::key("1", moved_from(&wider, 0)?)?;
            let deleted = wider.delete(&gone, IfMatch::Any).await;
            wider.migrate().await?;
            if let Err(error) = deleted {
                assert!(error.is_precondition_failed(), "{error}");
                let why = std::error::Error::source(&error)
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(why.contains("run `migrate` again"), "{why}");
            } else {
                assert_eq!(
                    wider.get(&gone).await?,
                    None,
                    "dead at {request}, {point:?}"
                );
                wider
                    .insert(&Wider::new(moved_from(&wider, 0)?, "old"))
                    .await?;
            }
            assert_moved(&rig, &format!("dead at {request}, {point:?}")).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_lose_nothing_to_a_migration() -> Result<()> {
    let (rig, wider) = filled().await?;
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let wider = wider.clone().with_attempts(100);
        tasks.spawn(async move {
            for round in 0..5 * ROWS {
                let add = |event: &mut Wider| {
                    event.text.push('+');
                    Ok(())
                };
                wider.update(Wider::key("1", round % ROWS)?, add).await?;
            }
            Ok::<_, table_core::store::Error>(())
        });
    }
    wider.migrate().await?;
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic")?;
    }
    let all: Vec<_> = wider
        .query()
        .partition(Wider::partition("1")?)
        .all()
        .await?;
    assert!(
        all.iter()
            .all(|event| event.text.matches('+').count() == 20)
    );
    assert_moved(&rig, "with writers").await
}

/// A salt puts entities elsewhere among as many buckets; points and migrations know it.
#[tokio::test]
async fn a_salt_is_declared_changed_and_taken_away() -> Result<()> {
    let rig = with_events().await?;
    let plain = rig.open::<Event>()?;
    let salted = rig.open::<Salted>()?.with_previous(4);
    let moved = (0..ROWS).filter(|n| {
        let key = Salted::key("1", *n).unwrap();
        salted.stored_key(key).unwrap() != plain.stored_key(Event::key("1", *n).unwrap()).unwrap()
    });
    let moved = moved.count() as u64;
    assert!(moved > 20, "{moved} of {ROWS}");
    assert_eq!(
        salted.get(Salted::key("1", 7u32)?).await?.unwrap().text,
        "old"
    );
    salted.upsert(&Salted::new(7, "new")).await?;
    assert_eq!(salted.migrate().await?.moved, moved);

    let salted = rig.open::<Salted>()?;
    rig.meter.reset();
    assert_eq!(
        salted.get(Salted::key("1", 7u32)?).await?.unwrap().text,
        "new"
    );
    assert_eq!(rig.meter.total(), 1);
    let all: Vec<_> = salted
        .query()
        .partition(Salted::partition("1")?)
        .all()
        .await?;
    assert!(all.iter().map(|event| event.number).eq(0..ROWS));

    let plain = plain.with_previous(Spread {
        buckets: 4,
        salt: "events of a day",
    });
    assert_eq!(plain.migrate().await?.moved, moved);
    let all: Vec<_> = rig
        .open::<Event>()?
        .query()
        .partition(Event::partition("1")?)
        .all()
        .await?;
    assert!(all.iter().map(|event| event.number).eq(0..ROWS));
    Ok(())
}

/// One request a page of the table, three for each entity moved, as documented.
#[tokio::test]
async fn a_migration_costs_three_requests_for_each_that_moves() -> Result<()> {
    let (rig, wider) = filled().await?;
    let (done, cost) = rig.meter.measure(wider.migrate()).await;
    let moved = done?.moved;
    assert_eq!(cost.total(), 3 * moved + 1);
    assert_eq!(cost.of_kind(OperationKind::Query), 1);
    let writes = [
        OperationKind::Merge,
        OperationKind::Insert,
        OperationKind::Delete,
    ];
    assert_eq!(writes.map(|kind| cost.of_kind(kind)), [moved; 3]);
    rig.meter.reset();
    assert_eq!(wider.migrate().await?.moved, 0);
    assert_eq!(rig.meter.total(), 1);
    Ok(())
}

/// As documented, for an entity that is where it was and for one that was moved.
#[tokio::test]
async fn writes_beside_a_previous_number_cost_what_is_said() -> Result<()> {
    let (rig, wider) = filled().await?;
    let number = moved_from(&wider, 0)?;
    let (key, value) = (Wider::key("1", number)?, Wider::new(number, "new"));
    for expected in [[3, 3, 3, 3], [2, 2, 2, 3]] {
        let (done, replace) = rig
            .meter
            .measure(wider.replace_if(&value, IfMatch::Any))
            .await;
        done?;
        let (done, upsert) = rig.meter.measure(wider.upsert(&value)).await;
        done?;
        let (done, update) = rig.meter.measure(wider.update(&key, |_| Ok(()))).await;
        done?;
        let (done, delete) = rig.meter.measure(wider.delete(&key, IfMatch::Any)).await;
        done?;
        assert_eq!(
            [replace, upsert, update, delete].map(|cost| cost.total()),
            expected
        );
        let (done, upsert) = rig.meter.measure(wider.upsert(&value)).await;
        done?;
        assert_eq!(upsert.total(), 5);
    }
    Ok(())
}

/// The same entities that expire.
macro_rules! session {
    ($name:ident, $spread:literal) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        #[entity(type = "Session", rename_all = "PascalCase", spread = $spread)]
        struct $name {
            #[partition_key]
            user: String,
            #[row_key]
            number: u32,
            #[expires]
            until: Option<Ticks>,
        }
    };
}

session!(Session, 4);
session!(WiderSession, 10);

/// An expired entity that a dead migration has marked is not replaced: the migration would put it over the new entity.
#[tokio::test(start_paused = true)]
async fn an_insert_over_an_expired_entity_waits_for_its_migration() -> Result<()> {
    for request in 1..=3 {
        let rig = Rig::new().await?;
        let (old, wider) = (
            rig.open::<Session>()?,
            rig.open::<WiderSession>()?.with_previous(4),
        );
        let is_moved = |number: &u32| {
            let key = WiderSession::key("u", *number).unwrap();
            wider.previous_key(key.key()).unwrap().is_some()
        };
        let number = (0..).find(is_moved).unwrap();
        let until = Some(Ticks::now());
        old.insert(&Session {
            user: "u".to_owned(),
            number,
            until,
        })
        .await?;
        let new = WiderSession {
            user: "u".to_owned(),
            number,
            until: None,
        };
        // The first write tells the manifest the new number of buckets.
        wider
            .upsert(&WiderSession {
                user: "v".to_owned(),
                ..new.clone()
            })
            .await?;
        let mut expected = 2;
        if request > 1 {
            // A migration that dies after its mark, and one that dies after its insert.
            rig.faults.crash_at(request, CrashPoint::After);
            wider.migrate().await.unwrap_err();
            rig.faults.heal();
            let error = wider.insert(&new).await.unwrap_err();
            let why = std::error::Error::source(&error)
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(why.contains("run `migrate` again"), "{error}: {why}");
            wider.migrate().await?;
            expected = 4;
        }
        let (inserted, cost) = rig.meter.measure(wider.insert(&new)).await;
        inserted?;
        assert_eq!(cost.total(), expected, "{request}");
        wider.migrate().await?;
        let all: Vec<_> = wider
            .query()
            .partition(WiderSession::partition("u")?)
            .all()
            .await?;
        assert_eq!(all, [new], "{request}");
    }
    Ok(())
}
