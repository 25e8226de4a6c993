//! The suite of stores on Azurite, the emulator of Azure Storage.

use conformance::{Deviation, conformance_tests};

use crate::backends::Emulated;

/// The known differences of Azurite 3.37 from the documented service.
const AZURITE: [Deviation; 10] = [
    Deviation::MergesBeyondLimits,
    Deviation::Int64LiteralOnInt32,
    Deviation::DoubleLiterals,
    Deviation::DateTimesByMillisecond,
    Deviation::Int64AsText,
    Deviation::NegativeZero,
    Deviation::EntitySize,
    Deviation::SplitCharacters,
    Deviation::TableNameCase,
    Deviation::GroupVersions,
];

conformance_tests!(Emulated::new(&AZURITE));

/// Answers that are lost after the service carried out the request: the write id in the stored entity proves
/// the write.
mod lost_answers {
    use std::sync::Arc;

    use table_azure::AzureTableStore;
    use table_core::Result;
    use table_core::adapter::{Fault, FaultInjector, RequestMeter, RetryPolicy, StoreBuilder};
    use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName};
    use table_core::store::{GroupTransaction, Operation, OperationKind, TableStore, Written};
    use uuid::Uuid;

    use crate::backends::emulated;

    /// A table with one entity, `old`, behind faults, a meter and retries with write ids.
    struct Fixture {
        store: Arc<dyn TableStore>,
        raw: AzureTableStore,
        faults: FaultInjector,
        meter: RequestMeter,
        table: TableName,
        version: IfMatch,
    }

    impl Fixture {
        async fn new() -> Self {
            let raw = emulated().await;
            let table = TableName::new(format!("T{}", Uuid::new_v4().simple())).unwrap();
            raw.create_table(&table).await.unwrap();
            let old = raw
                .write(&table, Operation::Insert(entity("old", 1)))
                .await
                .unwrap();
            let (faults, meter) = (FaultInjector::new(7), RequestMeter::new());
            let store = StoreBuilder::new(raw.clone())
                .retry(RetryPolicy::default().with_write_ids())
                .meter(meter.clone())
                .fault(faults.clone())
                .build();
            Self {
                store,
                raw,
                faults,
                meter,
                table,
                version: IfMatch::Exactly(old.etag.unwrap()),
            }
        }

        async fn write(&self, fault: Fault, operation: Operation) -> Result<Written> {
            self.faults.script([Some(fault)]);
            self.store.write(&self.table, operation).await
        }

        async fn stored(&self, row: &str) -> Option<Entity> {
            self.raw.get(&self.table, &key(row), None).await.unwrap()
        }
    }

    fn key(row: &str) -> Key {
        Key::new("p", row).unwrap()
    }

    fn entity(row: &str, n: i32) -> Entity {
        Entity::from(key(row)).with("N", n)
    }

    #[tokio::test]
    async fn every_write_is_found_after_a_lost_answer() {
        type Make = fn(&Fixture) -> Operation;
        let cases: [(&str, Make); 5] = [
            ("new", |_| Operation::Insert(entity("new", 2))),
            ("old", |fixture| {
                Operation::Replace(entity("old", 2), fixture.version.clone())
            }),
            ("old", |fixture| {
                Operation::Merge(entity("old", 2), fixture.version.clone())
            }),
            ("new", |_| Operation::InsertOrReplace(entity("new", 2))),
            ("old", |_| Operation::InsertOrMerge(entity("old", 2))),
        ];
        for (row, operation) in cases {
            let fixture = Fixture::new().await;
            let operation = operation(&fixture);
            let kind = operation.kind();
            let written = fixture.write(Fault::LoseAnswer, operation).await.unwrap();
            let stored = fixture.stored(row).await.unwrap();
            assert_eq!(stored.etag(), written.etag.as_ref(), "{kind}");
            assert_eq!(stored.get("N"), entity(row, 2).get("N"), "{kind}");
            assert_eq!(
                fixture.meter.snapshot().of_kind(OperationKind::Get),
                1,
                "{kind}"
            );
            assert_eq!(fixture.meter.total(), 2, "{kind}");
        }
    }

    #[tokio::test]
    async fn a_group_is_found_after_a_lost_answer() {
        let fixture = Fixture::new().await;
        let mut group =
            GroupTransaction::new(PartitionKey::new("p").unwrap(), fixture.store.profile());
        group.push(Operation::Insert(entity("new", 2))).unwrap();
        group
            .push(Operation::Replace(
                entity("old", 2),
                fixture.version.clone(),
            ))
            .unwrap();
        fixture.faults.script([Some(Fault::LoseAnswer)]);
        let written = fixture.store.transact(&fixture.table, group).await.unwrap();
        for (row, written) in ["new", "old"].into_iter().zip(written) {
            assert_eq!(
                fixture.stored(row).await.unwrap().etag(),
                written.etag.as_ref()
            );
        }
        assert_eq!(fixture.meter.total(), 3);
    }

    #[tokio::test]
    async fn a_lost_write_is_sent_again() {
        let fixture = Fixture::new().await;
        fixture
            .write(Fault::LoseRequest, Operation::Insert(entity("new", 2)))
            .await
            .unwrap();
        assert!(fixture.stored("new").await.is_some());
        assert_eq!(fixture.meter.total(), 3);
    }

    #[tokio::test]
    async fn a_delete_with_a_lost_answer_is_ambiguous() {
        let fixture = Fixture::new().await;
        let delete = Operation::Delete(key("old"), fixture.version.clone());
        assert!(
            fixture
                .write(Fault::LoseAnswer, delete)
                .await
                .unwrap_err()
                .is_ambiguous()
        );
        assert_eq!(fixture.stored("old").await, None);
        assert_eq!(fixture.meter.total(), 2);
    }
}
