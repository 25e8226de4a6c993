//! The suite of stores on the embedded store, in each of its modes.

use std::sync::Arc;

use conformance::{Backend, Scale, async_trait, conformance_tests};
use table_core::store::TableStore;
use table_embedded::{Durability, EmbeddedStore, Reads};
use tempfile::TempDir;

/// A store in a temporary directory, which is removed with it.
struct Embedded {
    directory: TempDir,
    durability: Durability,
    reads: Reads,
    scale: Scale,
}

impl Embedded {
    fn durable() -> Self {
        Self::new(
            Durability::Immediate,
            Reads::Inline,
            Scale {
                tables: 20,
                ..Scale::FULL
            },
        )
    }

    fn relaxed() -> Self {
        Self::new(Durability::Relaxed, Reads::Blocking, Scale::MODERATE)
    }

    fn new(durability: Durability, reads: Reads, scale: Scale) -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            durability,
            reads,
            scale,
        }
    }
}

#[async_trait]
impl Backend for Embedded {
    async fn store(&self) -> Arc<dyn TableStore> {
        let builder = EmbeddedStore::builder(self.directory.path().join("store"));
        let store = builder
            .durability(self.durability)
            .reads(self.reads)
            .open()
            .await;
        Arc::new(store.expect("a new store"))
    }

    fn scale(&self) -> Scale {
        self.scale
    }
}

mod durable {
    use super::*;

    conformance_tests!(Embedded::durable());
}

mod relaxed {
    use super::*;

    conformance_tests!(Embedded::relaxed());
}

mod indexes {
    use std::time::{Duration, Instant};

    use table_core::model::{Entity, TableName};
    use table_core::query::Query;
    use table_core::store::{Operation, TableStoreExt as _};
    use table_patterns::index::{
        Entry, Index, IndexOptions, IndexState, IndexedEntities, Placement,
    };

    use super::*;

    /// No other process can write the directory. A change of an index state therefore waits only for the writes
    /// in flight, in real time, and every concurrent write has the right entries.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn are_built_and_dropped_with_default_options_under_concurrent_writes()
    -> table_core::Result<()> {
        let backend = Embedded::durable();
        let (store, table) = (backend.store().await, TableName::new("People")?);
        store.create_table(&table).await?;
        let person = |id: u32| Entity::new("p", format!("{id:04}")).map(|e| e.with("City", "oslo"));
        for id in 0..5 {
            store.write(&table, Operation::Insert(person(id)?)).await?;
        }
        let index = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
        let open = || {
            let indexes = vec![index.clone()];
            IndexedEntities::open(
                store.clone(),
                table.clone(),
                indexes,
                IndexOptions::default(),
            )
        };
        let people = open().await?;
        let entries = async || {
            let rows = store.query_all(&table, &Query::new()).await?;
            Ok::<_, table_core::Error>(
                rows.iter()
                    .filter(|row| Entry::index_of(row) == Some(index.id()))
                    .count(),
            )
        };
        let begun = Instant::now();
        for round in 0..3 {
            let mut tasks = Vec::new();
            for task in 0..4 {
                let (writer, first) = (open().await?, 100 + round * 100 + task * 10);
                tasks.push(tokio::spawn(async move {
                    for id in first..first + 10 {
                        writer.insert(person(id)?).await?;
                    }
                    Ok::<_, table_core::Error>(())
                }));
            }
            let built = people.build("city")?.run().await?;
            assert_eq!(built.state, IndexState::Readable);
            for task in tasks {
                task.await.expect("no panic")?;
            }
            assert_eq!(
                entries().await?,
                5 + (round as usize + 1) * 40,
                "each person has an entry"
            );
            let writer = open().await?;
            let write = async {
                for id in 0..10 {
                    writer
                        .upsert(person(id % 5)?.with("Round", round as i32))
                        .await?;
                }
                Ok::<_, table_core::Error>(())
            };
            let (dropped, written) = tokio::join!(people.drop_index("city"), write);
            dropped?;
            written?;
            assert_eq!(entries().await?, 0, "no person has an entry");
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            begun.elapsed()
        );
        Ok(())
    }

    /// Journal rows are deleted behind the answers of writes; a store that is closed has none.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn leave_no_journal_rows_in_a_closed_store() -> table_core::Result<()> {
        let (directory, table) = (
            tempfile::tempdir().expect("a directory"),
            TableName::new("People")?,
        );
        let store = EmbeddedStore::open(directory.path()).await?;
        store.create_table(&table).await?;
        let index = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
        let shared: Arc<dyn TableStore> = Arc::new(store.clone());
        let people = IndexedEntities::open(
            shared,
            table.clone(),
            vec![index.clone()],
            IndexOptions::local(),
        )
        .await?;
        for id in 0..100 {
            people
                .insert(Entity::new("p", format!("{id:04}"))?.with("City", "oslo"))
                .await?;
        }
        store.close().await?;
        let store = EmbeddedStore::open(directory.path()).await?;
        let rows = store.query_all(&table, &Query::new()).await?;
        let rows: Vec<_> = rows
            .iter()
            .filter(|row| row.key().partition() != "~~manifest")
            .collect();
        assert_eq!(
            rows.iter()
                .filter(|row| Entry::index_of(row) == Some(index.id()))
                .count(),
            100
        );
        assert_eq!(rows.len(), 200, "the people and their entries");
        store.close().await
    }
}
