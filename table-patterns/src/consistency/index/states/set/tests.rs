use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;

use super::*;
use crate::entry::Placement;

async fn set(store: Arc<dyn TableStore>) -> Result<IndexSet> {
    let table = TableName::new("People")?;
    store.create_table(&table).await?;
    let index = Index::new("city", Placement::SamePartition, "1", |_| Ok(None));
    let durations = Durations {
        cache: Duration::from_secs(1),
        ..Durations::default()
    };
    Ok(IndexSet::new(store, table, vec![index], durations))
}

/// The start of a read decides its age, however late the answer arrives.
#[tokio::test(start_paused = true)]
async fn a_delayed_answer_does_not_replace_later_states() -> Result<()> {
    let store = MemoryStore::new();
    let set = set(Arc::new(store.clone())).await?;
    let rows = ManifestRows {
        store: &store,
        table: &set.table,
    };
    let index = StoredIndex::new(set.own[0].definition(), IndexState::DeleteOnly);
    assert!(
        rows.declare(&rows.load().await?.table, &[], &[index])
            .await?
    );
    let (asked, slow) = (set.read_time_now(), rows.load().await?);
    let mut stored = rows.index(set.own[0].id()).await?.unwrap();
    rows.advance(&mut stored, IndexState::WriteOnly, None)
        .await?;
    tokio::time::advance(Duration::from_millis(10)).await;
    set.refresh().await?;
    let until = set.valid_until();
    set.adopt_manifest(&slow, asked)?;
    assert_eq!(
        set.state("city"),
        IndexState::WriteOnly,
        "the later state stays"
    );
    assert_eq!(
        set.valid_until(),
        until,
        "the validity of the later read stays"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn concurrent_tasks_share_one_read_of_the_states() -> Result<()> {
    let meter = RequestMeter::new();
    let set = set(Arc::new(Metered::new(MemoryStore::new(), meter.clone()))).await?;
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(1)).await;
        let all = futures_util::future::try_join_all((0..20).map(|_| set.prepare()));
        let (all, cost) = meter.measure(all).await;
        assert!(
            all?.iter()
                .all(|permission| permission.valid_until.is_some())
        );
        assert_eq!(cost.total(), 1);
    }
    Ok(())
}
