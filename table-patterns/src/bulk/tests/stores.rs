use std::sync::Arc;

use futures_util::stream;
use table_core::adapter::CrashPoint;
use table_core::memory::MemoryStore;
use table_core::model::{ENCRYPTION_HEADERS, TableName};
use table_core::query::Query;
use table_core::store::{Operation, Result, ServiceProfile, TableStore, TableStoreExt as _};

use super::{Rig, reading};
use crate::bulk::{BulkOptions, BulkWriter, CopyJob, copy_store};
use crate::tests::AlwaysFirstPage;

const TABLES: [&str; 3] = ["Alpha", "Beta", "Gamma"];

async fn source() -> Result<Arc<dyn TableStore>> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    for name in TABLES {
        let table = TableName::new(name)?;
        store.create_table(&table).await?;
        let rows: Vec<_> = (0..250)
            .map(|n| {
                Ok((
                    table.clone(),
                    Operation::Insert(reading(&format!("p{}", n % 3), n)?),
                ))
            })
            .collect();
        BulkWriter::new(store.clone())
            .write(stream::iter(rows))
            .await?
            .into_result()?;
    }
    Ok(store)
}

#[tokio::test]
async fn a_crash_at_any_request_is_continued_by_the_next_run() -> Result<()> {
    let (from, mut request) = (source().await?, 1);
    loop {
        let to = Rig::new().await?;
        to.faults.crash_at(request, CrashPoint::After);
        let copy = copy_store(from.clone(), to.store.clone()).resumable("job");
        let copy = copy.with_options(BulkOptions::default().with_retry(None));
        let first = copy.run().await;
        let crashed = to.faults.is_crashed();
        to.faults.heal();
        assert_eq!(first.is_err(), crashed, "request {request}");
        // Also after a run that has ended: equal tables count as copied.
        assert_eq!(copy.run().await?.rows, 750, "request {request}");
        assert_eq!(copy.verify().await?, [], "request {request}");
        for name in TABLES {
            let rows = to
                .store
                .query_all(&TableName::new(name)?, &Query::new())
                .await?;
            assert_eq!(
                rows.len(),
                250,
                "request {request}: no checkpoint is left in {name}"
            );
        }
        if !crashed {
            return Ok(());
        }
        request += 1;
    }
}

#[tokio::test]
async fn a_store_is_not_copied_to_itself() -> Result<()> {
    let store = source().await?;
    let refused = copy_store(store.clone(), store).run().await.unwrap_err();
    assert!(refused.to_string().contains("the same store"), "{refused}");
    Ok(())
}

/// The search for a first row reads until a page has one.
#[tokio::test]
async fn a_repeated_continuation_token_ends_a_copy_with_an_error() -> Result<()> {
    let to = AlwaysFirstPage::around(source().await?, 0);
    let error = copy_store(source().await?, to).run().await.unwrap_err();
    assert!(
        error.to_string().contains("repeated continuation"),
        "{error}"
    );
    Ok(())
}

/// Copies the tables of a store within it, to other names, and back.
#[tokio::test]
async fn tables_are_copied_to_other_names_of_one_store() -> Result<()> {
    let store = source().await?;
    let (alpha, beta, copied) = (
        TableName::new("Alpha")?,
        TableName::new("Beta")?,
        TableName::new("Copied")?,
    );
    let copy = |from: &TableName, to: &TableName| {
        copy_store(store.clone(), store.clone())
            .tables([from.clone()])
            .renamed(from.clone(), to.clone())
    };
    let report = copy(&alpha, &copied).run().await?;
    let [of] = &*report.tables else {
        panic!("{report:?}")
    };
    assert_eq!(
        (&of.table, &of.to, of.rows, of.was_equal),
        (&alpha, &copied, 250, false)
    );
    assert_eq!(copy(&alpha, &copied).verify().await?, []);
    let again = copy(&alpha, &copied).run().await?;
    assert!(again.tables[0].was_equal && again.rows == 250, "{again:?}");
    store
        .write(&copied, Operation::Insert(reading("other", 1)?))
        .await?;
    let refused = copy(&alpha, &copied).run().await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("the table 'Copied' of the target has rows"),
        "{refused}"
    );
    let both = copy_store(store.clone(), store.clone()).renamed(alpha.clone(), beta.clone());
    assert!(
        both.run()
            .await
            .unwrap_err()
            .to_string()
            .contains("the same store")
    );
    let other: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let two = copy_store(store.clone(), other.clone()).renamed(alpha.clone(), beta);
    assert!(
        two.run()
            .await
            .unwrap_err()
            .to_string()
            .contains("two tables would be copied to 'Beta'")
    );
    let absent = copy_store(store, other.clone())
        .tables([])
        .renamed(alpha, copied);
    assert!(
        absent
            .run()
            .await
            .unwrap_err()
            .to_string()
            .contains("is not copied")
    );
    assert_eq!(other.all_tables(None).await?, []);
    Ok(())
}

/// Azure Table Storage binds ciphertext to the name in lower case, and Cosmos DB to the name as it is written.
#[tokio::test]
async fn ciphertext_that_would_be_unreadable_is_refused_before_a_write() -> Result<()> {
    let from: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let (people, lower) = (TableName::new("People")?, TableName::new("people2")?);
    for table in [&people, &lower] {
        from.create_table(table).await?;
        // The last row of many is encrypted.
        for row in 0..3 {
            from.write(table, Operation::Insert(reading("p", row)?))
                .await?;
        }
        let row = reading("q", 1)?.with(ENCRYPTION_HEADERS[0], vec![2_u8]);
        from.write(table, Operation::Insert(row)).await?;
    }
    let cosmos =
        || Arc::new(MemoryStore::with_profile(ServiceProfile::COSMOS_TABLE)) as Arc<dyn TableStore>;
    let to = cosmos();
    let refused = copy_store(from.clone(), to.clone())
        .run()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("of 'People' is encrypted") && refused.contains("case of table names"),
        "{refused}"
    );
    let single =
        CopyJob::new((from.clone(), people.clone()), (to.clone(), people.clone())).rows_only();
    assert!(
        single
            .run()
            .await
            .unwrap_err()
            .to_string()
            .contains("case of table names")
    );
    assert_eq!(to.all_tables(None).await?, [], "nothing was written");
    let copy = copy_store(from.clone(), to.clone()).tables([lower.clone()]);
    assert_eq!(
        copy.run().await?.rows,
        4,
        "a name in lower case is the same in both"
    );
    assert_eq!(copy.verify().await?, []);
    // To another name of the same service.
    let other: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let renamed = copy_store(from, other.clone())
        .tables([people.clone()])
        .renamed(people, lower);
    assert!(
        renamed
            .run()
            .await
            .unwrap_err()
            .to_string()
            .contains("another name")
    );
    assert_eq!(other.all_tables(None).await?, []);
    Ok(())
}
