use std::sync::{Arc, Mutex};

use futures_util::stream;
use table_core::adapter::CrashPoint;
use table_core::model::TableName;
use table_core::store::{Operation, OperationKind, Result, TableStore};

use super::{Rig, reading};
use crate::bulk::{BulkOptions, BulkWriter, CopyJob, Difference};

const ROWS: usize = 25_000;

async fn source() -> Result<Rig> {
    let rig = Rig::new().await?;
    let writes: Vec<_> = (0..ROWS)
        .map(|n| rig.insert(&format!("p{}", n % 7), n))
        .collect();
    BulkWriter::new(rig.store.clone())
        .write(stream::iter(writes))
        .await?;
    rig.meter.reset();
    Ok(rig)
}

fn job(from: &Rig, to: &Rig) -> CopyJob {
    let options = BulkOptions::default().with_retry(None);
    CopyJob::new(
        (from.store.clone(), from.table.clone()),
        (to.store.clone(), to.table.clone()),
    )
    .with_options(options)
}

/// Two stores may return the properties of a row in different orders. A NaN still equals itself.
#[tokio::test]
async fn nan_values_compare_equal_and_zeros_of_different_signs_differ() -> Result<()> {
    let (from, to) = (Rig::new().await?, Rig::new().await?);
    let key = || table_core::model::Entity::new("p", "r");
    let rows = [
        key()?.with("A", f64::NAN).with("B", 1),
        key()?.with("B", 1).with("A", f64::NAN),
    ];
    for (rig, row) in [&from, &to].into_iter().zip(rows) {
        rig.store.write(&rig.table, Operation::Insert(row)).await?;
    }
    assert!(job(&from, &to).verify().await?.equal);
    let zero = key()?.with("A", -0.0).with("B", 1);
    to.store
        .write(&to.table, Operation::InsertOrReplace(zero))
        .await?;
    from.store
        .write(
            &from.table,
            Operation::InsertOrReplace(key()?.with("A", 0.0).with("B", 1)),
        )
        .await?;
    assert!(
        !job(&from, &to).verify().await?.equal,
        "0.0 and -0.0 are different values"
    );
    Ok(())
}

#[tokio::test]
async fn a_copy_equals_its_source_and_has_the_documented_cost() -> Result<()> {
    let (from, to) = (source().await?, Rig::new().await?);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&seen);
    let job = job(&from, &to).on_progress(move |rows| reported.lock().unwrap().push(rows));
    assert_eq!(job.run().await?.rows, ROWS as u64);
    assert_eq!(*seen.lock().unwrap(), [0, 10_000, 20_000, 25_000]);
    assert_eq!(from.meter.total(), 25);
    let groups = to.meter.snapshot().of_kind(OperationKind::Transact);
    assert!((250..270).contains(&groups), "{groups}");
    assert_eq!(
        to.meter.total(),
        groups + 1,
        "the groups, and 1 request that creates the table"
    );

    let compared = job.verify().await?;
    assert_eq!(compared.first, ROWS as u64);
    assert_eq!(compared.second, ROWS as u64);
    assert!(compared.equal);
    Ok(())
}

#[tokio::test]
async fn a_comparison_lists_every_difference() -> Result<()> {
    let (from, to) = (Rig::new().await?, Rig::new().await?);
    for (rig, row, celsius) in [(&from, 1, 20), (&from, 2, 20), (&to, 2, 21), (&to, 3, 20)] {
        let row = reading("p", row)?.with("Fahrenheit", celsius);
        rig.store.write(&rig.table, Operation::Insert(row)).await?;
    }
    let key = |row| reading("p", row).map(|row| row.key().clone());
    let compared = job(&from, &to).verify().await?;
    assert!(!compared.equal);
    assert_eq!(
        compared.differences,
        [
            Difference::OnlyInFirst(key(1)?),
            Difference::Properties(key(2)?),
            Difference::OnlyInSecond(key(3)?),
        ]
    );
    Ok(())
}

/// The list of differences ends at 100. The count of missing rows does not.
#[tokio::test]
async fn a_difference_behind_the_listed_ones_is_counted() -> Result<()> {
    let (from, to) = (Rig::new().await?, Rig::new().await?);
    for row in 0..150 {
        to.store
            .write(&to.table, Operation::Insert(reading("a", row)?))
            .await?;
    }
    for rig in [&from, &to] {
        rig.store
            .write(&rig.table, Operation::Insert(reading("p", 1)?))
            .await?;
    }
    assert_eq!(
        job(&from, &to).verify().await?.missing,
        Some(0),
        "the target has rows of its own"
    );
    let other = reading("p", 1)?.with("Fahrenheit", 21);
    to.store
        .write(&to.table, Operation::InsertOrReplace(other))
        .await?;
    let compared = job(&from, &to).verify().await?;
    assert!(
        compared
            .differences
            .iter()
            .all(|found| matches!(found, Difference::OnlyInSecond(_))),
        "listed differences"
    );
    assert_eq!(compared.missing, Some(1));
    Ok(())
}

#[tokio::test]
async fn an_interrupted_copy_continues_at_its_checkpoint() -> Result<()> {
    let from = source().await?;
    for (request, point) in [(107, CrashPoint::Before), (215, CrashPoint::After)] {
        let to = Rig::new().await?;
        let job = job(&from, &to).resumable("from the old account");
        to.faults.crash_at(request, point);
        let died = job.run().await.is_err();
        assert_eq!(died, to.faults.is_crashed());
        to.faults.heal();
        let report = job.run().await?;
        assert_eq!(report.rows, ROWS as u64, "crash at {request}, {point:?}");
        assert!(
            !died || request < 150 || report.resumed >= 10_000,
            "crash at {request}, {report:?}"
        );
        assert!(job.verify().await?.equal);
        assert_eq!(
            job.run().await?.resumed,
            0,
            "a finished job starts from the beginning"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_table_can_be_copied_under_another_name() -> Result<()> {
    let from = source().await?;
    let to = (
        from.store.clone() as Arc<dyn TableStore>,
        TableName::new("Copy")?,
    );
    let job = CopyJob::new((from.store.clone(), from.table.clone()), to);
    assert_eq!(job.run().await?.rows, ROWS as u64);
    assert!(job.verify().await?.equal);
    Ok(())
}
