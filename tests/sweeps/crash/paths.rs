//! The paths of several requests.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream;
use table_core::adapter::{CrashPoint, FaultInjector};
use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{BulkSummary, Operation, Result, TableStoreExt};
use table_patterns::index::{BulkInsert, IndexState, ScrubCursor, ScrubMode, ScrubReport};
use table_patterns::journal::{Acknowledge, Change, Recovery};
use tokio::time::sleep;

use crate::process::{Knows, Process, person, text};

type Step = for<'a> fn(&'a Process, &'a FaultInjector) -> BoxFuture<'a, Result<()>>;

/// A path: its preparation, the work during which the process crashes, and the continuation.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    pub(crate) name: &'static str,
    pub(crate) knows: Knows,
    pub(crate) acknowledge: Acknowledge,
    pub(crate) before: Step,
    pub(crate) act: Step,
    /// The work that a user repeats after the crash. Recovery of writes does not need it.
    pub(crate) again: Step,
    /// Whether the entities show the acknowledged result.
    pub(crate) visible: fn(&[Entity]) -> bool,
    /// The index that must have no entries at the end.
    pub(crate) dropped: Option<&'static str>,
}

const WRITE: Path = Path {
    name: "",
    knows: Knows::Three,
    acknowledge: Acknowledge::Applied,
    before: nothing,
    act: nothing,
    again: nothing,
    visible: |_| true,
    dropped: None,
};

pub(crate) const PATHS: [Path; 18] = [
    Path {
        name: "open",
        act: open,
        again: open_again,
        ..WRITE
    },
    Path {
        name: "insert",
        act: insert,
        visible: |all| has(all, "3", "kay"),
        ..WRITE
    },
    Path {
        name: "update",
        act: update,
        visible: |all| has(all, "1", "kai"),
        ..WRITE
    },
    Path {
        name: "delete",
        act: delete,
        visible: |all| !has(all, "1", "ken"),
        ..WRITE
    },
    Path {
        name: "group",
        act: group,
        visible: |all| has(all, "1", "kai") && has(all, "3", "kay"),
        ..WRITE
    },
    Path {
        name: "bulk insert of several groups",
        act: insert_all,
        visible: |all| MANY.iter().all(|(_, id, name, _)| has(all, id, name)),
        ..WRITE
    },
    Path {
        name: "taken",
        act: taken,
        visible: |all| !has(all, "3", "kim"),
        ..WRITE
    },
    Path {
        name: "recovery of a committed write",
        acknowledge: Acknowledge::Committed,
        before: update,
        act: recover,
        visible: |all| has(all, "1", "kai"),
        ..WRITE
    },
    Path {
        name: "recovery of a reservation",
        before: half_an_update,
        act: recover,
        ..WRITE
    },
    Path {
        name: "sweep of a committed write",
        acknowledge: Acknowledge::Committed,
        before: update,
        act: sweep,
        visible: |all| has(all, "1", "kai"),
        ..WRITE
    },
    Path {
        name: "sweep of a reservation",
        before: half_an_update,
        act: sweep,
        ..WRITE
    },
    Path {
        name: "build",
        knows: Knows::Late,
        act: build,
        again: build,
        ..WRITE
    },
    Path {
        name: "build of a unique index",
        knows: Knows::LateUnique,
        act: build,
        again: build,
        ..WRITE
    },
    Path {
        name: "drop",
        knows: Knows::Late,
        before: build,
        act: drop_late,
        again: drop_late,
        dropped: Some("late"),
        ..WRITE
    },
    Path {
        name: "drop of an index that the program does not know",
        knows: Knows::Late,
        before: build,
        act: drop_unknown,
        again: drop_unknown,
        dropped: Some("late"),
        ..WRITE
    },
    Path {
        name: "rebuild",
        knows: Knows::Late,
        before: build,
        act: rebuild,
        again: rebuild,
        ..WRITE
    },
    Path {
        name: "scrub",
        before: damage,
        act: scrub,
        again: scrub,
        ..WRITE
    },
    Path {
        name: "scrub by pages",
        before: damage,
        act: scrub_pages,
        again: scrub_pages,
        ..WRITE
    },
];

fn has(all: &[Entity], id: &str, name: &str) -> bool {
    all.iter()
        .any(|e| e.key().row() == id && text(e, "Name") == Some(name))
}

fn nothing<'a>(_: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async { Ok(()) })
}

fn open<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async { process.open_another().await.map(drop) })
}

/// Whatever the first process completed: the index is kept for all later writes.
fn open_again<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        let another = process.open_another().await?;
        another.upsert(person("1", "ken", "rome")?).await?;
        another.journal().sweep(&[], Duration::ZERO).await?;
        assert_eq!(another.state("another"), IndexState::Readable);
        let report = another.scrub("another", ScrubMode::Report).await?;
        assert_eq!(report.entries, 1);
        assert_eq!(report.dangling, 0);
        assert_eq!(report.missing, 0);
        Ok(())
    })
}

fn insert<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        process
            .people
            .insert(person("3", "kay", "oslo")?)
            .await
            .map(drop)
    })
}

fn update<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        process
            .people
            .upsert(person("1", "kai", "rome")?)
            .await
            .map(drop)
    })
}

fn delete<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        process
            .people
            .modify(&Key::new("p", "1")?, |_| Ok(None))
            .await
            .map(drop)
    })
}

fn group<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        let old = process.people.get_existing(&Key::new("p", "1")?).await?;
        let changes = [
            Change::replace(old.into_inner(), person("1", "kai", "rome")?),
            Change::insert(person("3", "kay", "oslo")?),
        ];
        process.people.write(&changes).await.map(drop)
    })
}

/// New people in two partitions.
const MANY: [(&str, &str, &str, &str); 6] = [
    ("p", "3", "kay", "oslo"),
    ("q", "4", "kit", "rome"),
    ("p", "5", "kip", "oslo"),
    ("p", "6", "kol", "rome"),
    ("q", "7", "kas", "oslo"),
    ("p", "8", "kez", "oslo"),
];

fn insert_all<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    let people = MANY.map(|(partition, id, name, city)| {
        person(id, name, city).and_then(|person| Ok(person.with_key(Key::new(partition, id)?)))
    });
    // Three people per window: two groups, then one.
    let options = BulkInsert::default().with_window(3).with_concurrency(2);
    Box::pin(async move {
        let outcomes = process.people.insert_all(stream::iter(people), options);
        BulkSummary::of(outcomes).await?.into_result().map(drop)
    })
}

fn taken<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        let changes = [
            Change::insert(person("3", "kay", "oslo")?),
            Change::insert(person("4", "kim", "oslo")?),
        ];
        match process.people.write(&changes).await {
            Err(error) if error.is_unique_violation() => Ok(()),
            other => other.map(drop),
        }
    })
}

/// The process crashes between the reservation and the commit.
fn half_an_update<'a>(
    process: &'a Process,
    faults: &'a FaultInjector,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        // The read, the ticket, the reservation.
        faults.crash_at(3, CrashPoint::After);
        assert!(update(process, faults).await.is_err());
        assert!(faults.is_crashed());
        faults.heal();
        Ok(())
    })
}

fn recover<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        for _ in 0..2 {
            sleep(Duration::from_millis(1_100)).await;
            let worker = Recovery::new(&*process.queue, vec![process.people.journal()]);
            worker.run_once(8).await?;
        }
        Ok(())
    })
}

fn sweep<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async { process.sweep().await.map(drop) })
}

fn build<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async { process.people.build("late")?.run().await.map(drop) })
}

fn drop_late<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(process.people.drop_index("late"))
}

fn drop_unknown<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(process.drop_unknown())
}

fn rebuild<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async { process.people.rebuild("late").await?.run().await.map(drop) })
}

/// Removes one entry and adds an entry without entity.
fn damage<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        let table = process.city_table();
        let lost = Key::new("oslo", "1")?;
        let row = process.store.get_existing(&table, &lost).await?;
        process
            .store
            .write(&table, Operation::Delete(lost, IfMatch::Any))
            .await?;
        process
            .store
            .write(
                &table,
                Operation::Insert(row.with_key(Key::new("rome", "1")?)),
            )
            .await
            .map(drop)
    })
}

fn scrub<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        process
            .people
            .scrub("city", ScrubMode::Repair)
            .await
            .map(drop)
    })
}

/// Stores the cursor in a row and continues from it.
fn scrub_pages<'a>(process: &'a Process, _: &'a FaultInjector) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        let (table, at) = (process.city_table(), Key::new("scrub", "cursor")?);
        let kept = process.store.get(&table, &at, None).await?;
        let mut cursor = match kept.as_ref().and_then(|row| text(row, "Cursor")) {
            Some("done") => None,
            kept => Some(kept.map_or(Ok(ScrubCursor::default()), str::parse)?),
        };
        while let Some(from) = cursor {
            let mut report = ScrubReport::default();
            cursor = process
                .people
                .scrub_page("city", ScrubMode::Repair, from, &mut report)
                .await?;
            let kept = cursor
                .as_ref()
                .map_or_else(|| "done".to_owned(), ToString::to_string);
            let row = Entity::from(at.clone()).with("Cursor", kept);
            process
                .store
                .write(&table, Operation::InsertOrReplace(row))
                .await?;
        }
        Ok(())
    })
}

/// Works as workers do until no ticket is left.
pub(crate) async fn work(process: &Process) -> Result<()> {
    for _ in 0..20 {
        sleep(Duration::from_secs(4)).await;
        let worker = Recovery::new(&*process.queue, vec![process.people.journal()]);
        if worker.run_once(32).await? == 0 {
            break;
        }
    }
    sleep(Duration::from_secs(60)).await;
    assert!(process.queue.peek(1).await?.is_empty(), "a ticket is left");
    Ok(())
}
