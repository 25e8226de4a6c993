//! Several types, or versions of one, whose rows and blobs share a table.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use table_core::model::{Entity, IfMatch};
use table_core::store::{ErrorKind, Operation, Result, TableStore as _};
use table_core::typed::TableEntity;

use super::{LONG, PICTURE, Report, Rig, collect_older, database, report};
use crate::Table;
use crate::journal::Change;
use crate::large::{CollectMode, NewBlobs};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Contract", rename_all = "PascalCase")]
struct Contract {
    #[partition_key]
    department: String,
    #[row_key]
    number: u32,
    #[large(over = 10)]
    body: String,
    /// Of another type than a report's.
    #[large(over = 10)]
    text: Vec<u8>,
}

fn contract(number: u32) -> Contract {
    Contract {
        department: "Sales & Co".to_owned(),
        number,
        body: LONG.to_owned(),
        text: PICTURE.to_vec(),
    }
}

fn open<T: TableEntity>(rig: &Rig) -> Result<Table<T>> {
    database(rig.store.clone(), rig.blobs.clone()).table("Reports")
}

#[tokio::test]
async fn a_collection_leaves_the_blobs_of_other_types() -> Result<()> {
    let rig = Rig::new().await?;
    let contracts = open::<Contract>(&rig)?;
    rig.table.insert(&report(LONG, Some(PICTURE))).await?;
    contracts.insert(&contract(2)).await?;
    rig.meter.reset();
    let found = collect_older(&rig.table, Duration::ZERO, CollectMode::Remove).await?;
    assert_eq!(found.used, 4);
    assert_eq!(found.orphans, 0);
    assert_eq!(rig.blob_count().await, 4);
    assert_eq!(rig.meter.total(), 2, "one for each entity");
    assert_eq!(
        contracts
            .get_existing(Contract::key("Sales & Co", 2u32)?)
            .await?,
        contract(2)
    );
    Ok(())
}

#[tokio::test]
async fn a_collection_leaves_the_blobs_of_other_versions() -> Result<()> {
    #[derive(Debug, TableEntity)]
    #[entity(type = "Contract", version = 2, previous = Contract, rename_all = "PascalCase")]
    struct Renamed {
        #[partition_key]
        department: String,
        #[row_key]
        number: u32,
        #[large(over = 10)]
        wording: String,
        /// No longer large.
        #[allow(dead_code)]
        text: Vec<u8>,
    }
    impl From<Contract> for Renamed {
        fn from(old: Contract) -> Self {
            let Contract {
                department,
                number,
                body,
                text,
            } = old;
            Self {
                department,
                number,
                wording: body,
                text,
            }
        }
    }
    let rig = Rig::new().await?;
    open::<Contract>(&rig)?.insert(&contract(1)).await?;
    let renamed = open::<Renamed>(&rig)?;
    let found = collect_older(&renamed, Duration::ZERO, CollectMode::Remove).await?;
    assert_eq!(found.used, 2);
    assert_eq!(found.orphans, 0);
    assert_eq!(rig.blob_count().await, 2);

    // Nor is anything of the new layout written into the old row.
    let content = stream::iter([Ok(Bytes::from_static(b"new"))]);
    let key = Renamed::key("Sales & Co", 1u32)?;
    let error = renamed
        .put_stream(key, Renamed::WORDING, content, IfMatch::Any)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("version 1 of the schema"),
        "{error}"
    );
    assert_eq!(rig.blob_count().await, 2);
    Ok(())
}

#[tokio::test]
async fn a_reference_that_cannot_be_read_keeps_its_blobs() -> Result<()> {
    let rig = Rig::new().await?;
    let whole = report(LONG, None);
    rig.table.insert(&whole).await?;
    let row = Entity::from(whole.entity_key()?.into_key())
        .with("Text", b"blob2 of a version to come".as_slice());
    rig.store
        .write(rig.table.name(), Operation::Merge(row, IfMatch::Any))
        .await?;
    let found = collect_older(&rig.table, Duration::ZERO, CollectMode::Remove).await?;
    assert_eq!(found.used, 1);
    assert_eq!(found.orphans, 0);

    // A value in its place is no reference.
    rig.table.upsert(&report("blob", None)).await?;
    let found = collect_older(&rig.table, Duration::ZERO, CollectMode::Report).await?;
    assert_eq!(
        found.used, 1,
        "a value that begins like a reference keeps it too"
    );
    assert_eq!(
        found.orphans, 0,
        "a value that begins like a reference keeps it too"
    );
    rig.table.upsert(&report("short", None)).await?;
    let found = collect_older(&rig.table, Duration::ZERO, CollectMode::Remove).await?;
    assert_eq!(found.used, 0);
    assert_eq!(found.orphans, 1);
    assert_eq!(rig.blob_count().await, 0);
    Ok(())
}

#[tokio::test]
async fn a_stream_goes_into_no_other_type() -> Result<()> {
    let rig = Rig::new().await?;
    open::<Contract>(&rig)?.insert(&contract(1)).await?;
    let before = rig
        .store
        .get(
            rig.table.name(),
            Contract::key("Sales & Co", 1u32)?.key(),
            None,
        )
        .await?;
    let content = stream::iter([Ok(Bytes::from_static(b"a picture"))]);
    let key = Report::key("Sales & Co", 1u32)?;
    let error = rig
        .table
        .put_stream(&key, Report::PICTURE, content, IfMatch::Any)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected \"Report\", found String(\"Contract\")"),
        "{error}"
    );
    assert_eq!(
        rig.store.get(rig.table.name(), key.key(), None).await?,
        before
    );
    assert_eq!(rig.blob_count().await, 2);
    Ok(())
}

#[tokio::test]
async fn what_a_row_of_another_type_referred_to_goes_with_it() -> Result<()> {
    let rig = Rig::new().await?;
    let contracts = open::<Contract>(&rig)?;
    contracts.insert(&contract(1)).await?;
    rig.table
        .replace_if(&report(LONG, None), IfMatch::Any)
        .await?;
    assert_eq!(rig.blob_count().await, 1, "the report's text");
    rig.table
        .delete(Report::key("Sales & Co", 1u32)?, IfMatch::Any)
        .await?;
    contracts.insert(&contract(1)).await?;
    rig.table.upsert(&report("short", None)).await?;
    assert_eq!(rig.blob_count().await, 0);
    rig.table
        .delete(Report::key("Sales & Co", 1u32)?, IfMatch::Any)
        .await?;
    contracts.insert(&contract(1)).await?;
    rig.table
        .delete(Report::key("Sales & Co", 1u32)?, IfMatch::Any)
        .await?;
    assert_eq!(rig.blob_count().await, 0);
    Ok(())
}

#[tokio::test]
async fn a_write_is_given_up_after_the_machine_slept() -> Result<()> {
    let rig = Rig::new().await?;
    let (mut row, mut new) = (report(LONG, None).to_entity()?, NewBlobs::none());
    let writer = rig.table.large().expect("large fields");
    writer.values().move_out(&mut row, &mut new).await?;
    new.started.time = SystemTime::now() - Duration::from_secs(3601);
    let error = writer
        .commit(&new, &[Change::insert(row)])
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout { .. }), "{error}");
    assert_eq!(rig.meter.total(), 0);
    assert_eq!(rig.blob_count().await, 0);
    Ok(())
}
