use tokio::time::advance;

use super::*;

fn row(id: u64, version: u64) -> ProcessRow {
    let durations = Durations {
        cache: Duration::from_secs(30),
        request: Duration::from_secs(60),
        lease: Duration::from_secs(300),
    };
    let entity = ProcessRow::to_entity(ProcessId(Uuid::from_u64_pair(0, id)), durations).unwrap();
    ProcessRow::read(&entity.with_system(Some(ETag::from_version(version)), None)).unwrap().unwrap()
}

/// Observes rows with an immediate answer; returns the ids of ended processes.
fn gone(watch: &Watch, rows: &[ProcessRow]) -> Vec<u64> {
    let (there, gone) = watch.look(rows, Instant::now(), None);
    assert_eq!(there.len() + gone.len(), rows.len());
    gone.iter().map(|row| row.id.0.as_u64_pair().1).collect()
}

#[test]
fn a_row_has_its_heartbeat() {
    let row = row(1, 1);
    assert_eq!(row.heartbeat, Duration::from_secs(600), "ten times the cache, and the lease, twice");
    assert_eq!(row.lifetime(), Duration::from_secs(600 + 30 + 60));
    let other = Entity::new(MANIFEST_PARTITION, "table").unwrap();
    assert_eq!(ProcessRow::read(&other).unwrap(), None);
}

/// An observation begins with the first answer that has the row unchanged, and ends with the start of the last read.
#[tokio::test(start_paused = true)]
async fn a_process_has_ended_after_its_row_was_unchanged_for_its_lifetime() {
    let (watch, lifetime) = (Watch::default(), row(1, 1).lifetime());
    let nearly = lifetime.checked_sub(Duration::from_millis(1)).unwrap();
    assert!(gone(&watch, &[row(1, 1), row(2, 1)]).is_empty(), "nobody has watched them before");
    advance(nearly).await;
    assert!(gone(&watch, &[row(1, 1), row(2, 2)]).is_empty());
    advance(Duration::from_millis(1)).await;
    assert_eq!(gone(&watch, &[row(1, 1), row(2, 2), row(3, 1)]), [1], "the second was written anew");
    advance(nearly).await;
    assert_eq!(gone(&watch, &[row(1, 2), row(2, 2), row(3, 1)]), [2], "the first is there again");
}

/// A delayed answer shows the state at the start of its read.
#[tokio::test(start_paused = true)]
async fn a_delayed_answer_does_not_extend_the_observation() {
    let (watch, lifetime) = (Watch::default(), row(1, 1).lifetime());
    let asked = Instant::now();
    advance(lifetime).await;
    // The first answer: the row could have been written just before the answer.
    assert!(watch.look(&[row(1, 1)], asked, None).1.is_empty());
    let asked = Instant::now();
    advance(lifetime).await;
    assert!(watch.look(&[row(1, 1)], asked, None).1.is_empty());
    assert_eq!(watch.look(&[row(1, 1)], Instant::now(), None).1.len(), 1);
}

/// A process that runs too briefly to observe a row compares the store's timestamps of that row and of its own.
#[tokio::test(start_paused = true)]
async fn a_process_has_ended_if_its_row_is_a_day_older_than_another() {
    let stamped = |id, at| ProcessRow { at: Some(at), ..row(id, 1) };
    let (first, lifetime) = (Ticks::now(), row(1, 1).lifetime());
    for (age, is_gone) in [(LONG_AGO, false), (LONG_AGO + lifetime, true)] {
        let rows = [stamped(1, first), stamped(2, after(first, age))];
        let gone = |own: u64| {
            let own = Some(ProcessId(Uuid::from_u64_pair(0, own)));
            let (_, gone) = Watch::default().look(&rows, Instant::now(), own);
            gone.iter().map(|row| row.id.0.as_u64_pair().1).collect::<Vec<_>>()
        };
        assert_eq!(gone(2), if is_gone { vec![1] } else { vec![] });
        assert!(gone(1).is_empty() && gone(3).is_empty(), "by its own row alone");
    }
}
