use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{ENCRYPTION_HEADERS, Entity, Key, Properties, TableName, Ticks};
use table_core::query::Query;
use table_core::store::{Error, Operation, Result, ServiceProfile, TableStore, TableStoreExt as _};
use table_core::typed::TableEntity;

use super::{Backup, BackupDirectory, BackupJob, EncodedRows, RestoreJob, RowFormat, RowsSize};
use crate::bulk::tests::Rig;
use crate::bulk::{BulkOptions, BulkWriter, compare_tables};
use crate::index::{Index, IndexOptions, IndexedEntities, Placement};
use crate::journal::Clearing;
use crate::large::LargeOptions;
use crate::tests::faulty_blobs::FaultyBlobs;
use crate::upkeep::Upkeep;
use crate::{Database, Table};

/// Keys and packed properties as lines of hexadecimal digits.
struct Lines;

impl RowFormat for Lines {
    fn extension(&self) -> &'static str {
        "txt"
    }

    fn encode(&self, rows: &[Entity]) -> Result<EncodedRows> {
        let hex = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let line = |row: &Entity| {
            let (key, packed) = (row.key(), row.properties().as_packed());
            format!(
                "{} {} {}\n",
                hex(key.partition().as_bytes()),
                hex(key.row().as_bytes()),
                hex(packed)
            )
        };
        let content = rows.iter().map(line).collect::<String>().into_bytes();
        Ok(EncodedRows {
            bytes: content.len() as u64,
            content,
        })
    }

    fn decode(&self, file: &[u8], size: RowsSize) -> Result<Vec<Entity>> {
        assert!(file.len() as u64 <= size.bytes);
        let bytes = |hex: &str| -> Result<Vec<u8>> {
            let digits = hex
                .as_bytes()
                .chunks(2)
                .map(|two| std::str::from_utf8(two).unwrap_or("?"));
            digits
                .map(|two| u8::from_str_radix(two, 16).map_err(|e| Error::corrupt(e.to_string())))
                .collect()
        };
        let text = |hex: &str| -> Result<String> {
            Ok(String::from_utf8_lossy(&bytes(hex)?).into_owned())
        };
        let lines = String::from_utf8_lossy(file).into_owned();
        let row = |line: &str| {
            let mut parts = line.split(' ');
            let mut part = || parts.next().unwrap_or_default();
            let key = Key::new(text(part())?, text(part())?)?;
            Ok(Entity::from_parts(
                key,
                Properties::from_packed(bytes(part())?)?,
            ))
        };
        lines.lines().map(row).collect()
    }
}

fn directory(files: &Arc<InMemory>) -> BackupDirectory {
    BackupDirectory::new(
        Arc::clone(files) as Arc<dyn ObjectStore>,
        Path::from("monday"),
        Lines,
    )
}

fn once() -> BulkOptions {
    BulkOptions::default().with_retry(None)
}

/// A store with 25,000 rows in one table, and one row in another.
async fn source() -> Result<Rig> {
    let rig = Rig::new().await?;
    let writes: Vec<_> = (0..25_000)
        .map(|n| rig.insert(&format!("p{}", n % 7), n))
        .collect();
    BulkWriter::new(rig.store.clone())
        .write(stream::iter(writes))
        .await?;
    let small = TableName::new("Small")?;
    rig.store.create_table(&small).await?;
    rig.store
        .write(
            &small,
            Operation::Insert(Entity::new("p", "r")?.with("N", 1_i64)),
        )
        .await?;
    rig.store.create_table(&TableName::new("Empty")?).await?;
    rig.meter.reset();
    Ok(rig)
}

async fn assert_equal(from: &Rig, to: &Arc<dyn TableStore>) -> Result<()> {
    let tables = from.store.all_tables(None).await?;
    assert_eq!(to.all_tables(None).await?, tables);
    for table in tables {
        let compared = compare_tables(
            (from.store.clone(), table.clone()),
            (Arc::clone(to), table.clone()),
        )
        .await?;
        assert!(compared.equal, "{table}: {compared:?}");
        let checkpoints = Query::new().with_filter("PartitionKey eq '~~copy'".parse()?);
        assert_eq!(to.query_all(&table, &checkpoints).await?, []);
    }
    Ok(())
}

#[tokio::test]
async fn a_restored_backup_equals_its_source_and_has_the_documented_cost() -> Result<()> {
    let (from, files) = (source().await?, Arc::new(InMemory::new()));
    let report = BackupJob::new(from.store.clone(), "the account", directory(&files))
        .run()
        .await?;
    let rows: Vec<_> = report
        .backup
        .tables
        .iter()
        .map(|(name, table)| (name.as_str(), table.rows()))
        .collect();
    assert_eq!(rows, [("Empty", 0), ("Readings", 25_000), ("Small", 1)]);
    assert_eq!(report.resumed, 0);
    assert_eq!(report.backup.source.as_str(), "the account");
    assert_eq!(
        from.meter.total(),
        1 + 25 + 1 + 1,
        "the tables and the pages; the store knows the manifests"
    );

    let to = Rig::bare();
    let job = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .with_options(once());
    assert_eq!(job.rows(), 25_001);
    let restored = job.run().await?;
    assert_eq!(restored.tables, 3);
    assert_eq!(restored.rows, 25_001);
    assert_eq!(restored.resumed, 0);
    assert_eq!(restored.unfinished, 0);
    assert_equal(&from, &to.store).await?;
    Ok(())
}

/// The process dies before some requests of the backup.
#[tokio::test]
async fn an_interrupted_backup_continues_at_its_last_file() -> Result<()> {
    let from = source().await?;
    for request in [1, 4, 9, 13, 22, 25, 27] {
        let files = Arc::new(InMemory::new());
        // One table after another: a failed table ends the others, with the files that they are writing.
        let job = || {
            BackupJob::new(from.store.clone(), "the account", directory(&files)).with_concurrency(1)
        };
        from.faults.crash_at(request, CrashPoint::Before);
        job().run().await.unwrap_err();
        from.faults.heal();
        let error = RestoreJob::open(directory(&files), from.store.clone())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("not complete") || error.contains("no backup"),
            "{error}"
        );
        let report = job().run().await?;
        assert!(
            request < 20 || report.resumed >= 10_000,
            "{request}: {}",
            report.resumed
        );
        let to = Rig::bare();
        let restore = RestoreJob::open(directory(&files), to.store.clone())
            .await?
            .with_options(once());
        assert_eq!(restore.run().await?.tables, 3);
        assert_equal(&from, &to.store).await?;
        let error = job().run().await.unwrap_err().to_string();
        assert!(error.contains("complete backup"), "{error}");
        let left: Vec<_> = files.list(None).try_collect::<Vec<_>>().await.unwrap();
        assert!(
            left.iter()
                .all(|file| !file.location.as_ref().contains("unfinished")),
            "{left:?}"
        );
    }
    Ok(())
}

/// Another process completes a backup in the directory, or begins one, after this process has looked at the directory.
#[tokio::test]
async fn a_prepared_backup_does_not_write_over_one_that_came_later() -> Result<()> {
    for is_completed in [true, false] {
        let (from, files) = (source().await?, Arc::new(InMemory::new()));
        let job = |source: &str| BackupJob::new(from.store.clone(), source, directory(&files));
        let late = job("one");
        let prepared = late.prepare().await?;
        if !is_completed {
            from.faults.crash_at(9, CrashPoint::Before);
        }
        assert_eq!(job("two").run().await.is_ok(), is_completed);
        from.faults.heal();
        let before: Vec<_> = files.list(None).try_collect::<Vec<_>>().await.unwrap();
        let error = prepared.run().await.unwrap_err().to_string();
        let reason = if is_completed {
            "has a complete backup"
        } else {
            "has begun a backup"
        };
        assert!(error.contains(reason), "{error}");
        assert_eq!(
            files.list(None).try_collect::<Vec<_>>().await.unwrap(),
            before,
            "nothing was written"
        );
        assert_eq!(
            job("two").run().await.is_err(),
            is_completed,
            "the other backup is as before"
        );
    }
    Ok(())
}

/// An object store repeats a request whose answer was lost, and then finds its own file.
#[tokio::test]
async fn a_repeated_request_begins_the_same_backup() -> Result<()> {
    let files = Arc::new(InMemory::new());
    let [one, two] = ["one", "two"].map(|source| Backup::new(source.to_owned(), None, false));
    assert!(one.begin(&directory(&files)).await?);
    assert!(one.begin(&directory(&files)).await?, "the own file");
    assert!(
        !two.begin(&directory(&files)).await?,
        "the file of another backup"
    );
    Ok(())
}

#[tokio::test]
async fn a_store_without_conditional_writes_has_backups() -> Result<()> {
    let (from, memory) = (source().await?, Arc::new(InMemory::new()));
    let files = FaultyBlobs::apart(
        Arc::clone(&memory) as Arc<dyn ObjectStore>,
        FaultInjector::new(1),
    );
    files.refuse_conditions();
    let to = BackupDirectory::new(Arc::new(files), Path::from("monday"), Lines);
    BackupJob::new(from.store.clone(), "the account", to)
        .run()
        .await?;
    assert_eq!(
        RestoreJob::open(directory(&memory), Rig::bare().store.clone())
            .await?
            .rows(),
        25_001
    );
    Ok(())
}

#[tokio::test]
async fn an_unfinished_backup_of_another_source_is_not_continued() -> Result<()> {
    let (from, files) = (source().await?, Arc::new(InMemory::new()));
    from.faults.crash_at(9, CrashPoint::Before);
    BackupJob::new(from.store.clone(), "one", directory(&files))
        .run()
        .await
        .unwrap_err();
    from.faults.heal();
    let other = BackupJob::new(from.store.clone(), "two", directory(&files))
        .run()
        .await
        .unwrap_err();
    assert!(
        other.to_string().contains("unfinished backup of one"),
        "{other}"
    );
    let fewer = BackupJob::new(from.store.clone(), "one", directory(&files))
        .tables([TableName::new("Small")?]);
    assert!(fewer.run().await.is_err());
    Ok(())
}

/// It would be complete without the other tables.
#[tokio::test]
async fn an_unfinished_backup_of_chosen_tables_is_not_continued_as_one_of_all() -> Result<()> {
    let (from, files) = (source().await?, Arc::new(InMemory::new()));
    let all = || BackupJob::new(from.store.clone(), "one", directory(&files));
    let chosen = || all().tables(["Readings", "Small"].map(|name| TableName::new(name).unwrap()));
    from.faults.crash_at(9, CrashPoint::Before);
    chosen().run().await.unwrap_err();
    from.faults.heal();
    let error = all().run().await.unwrap_err().to_string();
    assert!(error.contains("with other tables or options"), "{error}");
    let report = chosen().run().await?;
    assert_eq!(
        report
            .backup
            .tables
            .keys()
            .map(TableName::as_str)
            .collect::<Vec<_>>(),
        ["Readings", "Small"]
    );
    assert!(report.backup.is_choice);

    // The other way round: all tables of the store, continued with a choice of all.
    let files = Arc::new(InMemory::new());
    let all = || BackupJob::new(from.store.clone(), "one", directory(&files));
    from.faults.crash_at(9, CrashPoint::Before);
    all().run().await.unwrap_err();
    from.faults.heal();
    let names = from.store.all_tables(None).await?;
    assert!(all().tables(names).run().await.is_err());
    assert!(!all().run().await?.backup.is_choice);
    Ok(())
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Session", rename_all = "PascalCase")]
#[index(name, partition_key = "name_{name}", row_key = "x", unique = "table")]
struct Session {
    #[partition_key]
    user: String,
    #[row_key]
    number: u32,
    name: String,
    #[large(over = 4)]
    text: String,
    #[expires]
    until: Option<Ticks>,
    #[deleted_at(keep_days = 30)]
    deleted: Option<Ticks>,
}

/// Hidden entities, their entries and their blobs are part of a backup: they can be restored from it, and be swept.
#[tokio::test]
async fn hidden_entities_are_backed_up() -> Result<()> {
    let (from, name) = (Arc::new(MemoryStore::new()), TableName::new("Sessions")?);
    let (blobs, files) = (Arc::new(InMemory::new()), Arc::new(InMemory::new()));
    let open = async |store: &Arc<MemoryStore>, blobs: &Arc<InMemory>| {
        let options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
        let store: Arc<dyn TableStore> = Arc::clone(store) as _;
        let db = Database::with_options(store, options).with_blobs(blobs.clone());
        let table = db.table::<Session>(name.clone())?;
        table.declare().await?;
        Result::<Table<Session>>::Ok(table)
    };
    let table = open(&from, &blobs).await?;
    let session = |number: u32, until| {
        let (name, text) = (format!("n{number}"), format!("a long text, {number}"));
        Session {
            user: "ann".into(),
            number,
            name,
            text,
            until,
            deleted: None,
        }
    };
    let past = "2020-01-01T00:00:00Z".parse::<Ticks>().unwrap();
    for (number, until) in [(1, None), (2, Some(past)), (3, None)] {
        table.insert(&session(number, until)).await?;
    }
    table.soft_delete(Session::key("ann", 3)?).await?;
    let root = LargeOptions::default().root;
    let job = BackupJob::new(from.clone(), "s", directory(&files))
        .with_blobs(blobs.clone(), root.clone());
    let report = job.run().await?;
    assert!(report.backup.has_blobs);
    assert_eq!(report.backup.tables[&name].with_blobs, 3);

    let (to, restored_blobs) = (Arc::new(MemoryStore::new()), Arc::new(InMemory::new()));
    let job = RestoreJob::open(directory(&files), to.clone()).await?;
    let job = job.with_blobs(restored_blobs.clone(), root.clone());
    let error = job.run().await.unwrap_err().to_string();
    assert!(
        error.contains("'Session' of the table 'Sessions' expire")
            && error.contains("trust_definitions"),
        "{error}"
    );
    assert_eq!(to.all_tables(None).await?, []);
    assert_eq!(job.trust_definitions().run().await?.failed.len(), 0);
    let restored = open(&to, &restored_blobs).await?;
    assert_eq!(restored.query().all().await?, [session(1, None)]);
    restored
        .insert(&session(3, None))
        .await
        .expect_err("the deleted entity keeps its key");
    assert_eq!(
        restored.restore(Session::key("ann", 3)?).await?,
        session(3, None)
    );
    let upkeep = Upkeep::new(to.clone())
        .tables([name.clone()])
        .blobs(restored_blobs.clone(), LargeOptions::default());
    let swept = upkeep.expire_every(Duration::ZERO).run_once().await?;
    assert_eq!(
        swept.tables[&name]
            .expiry
            .as_ref()
            .map(|expiry| expiry.removed),
        Some(1)
    );
    let left = restored.with_hidden().query().all().await?;
    assert_eq!(
        left.iter()
            .map(|session| session.number)
            .collect::<Vec<_>>(),
        [1, 3]
    );
    Ok(())
}

/// The rows of files that an interrupted restore has written would stay without their blobs.
#[tokio::test]
async fn a_restore_does_not_change_its_choice_of_blobs() -> Result<()> {
    let (from, name) = (Arc::new(MemoryStore::new()), TableName::new("Sessions")?);
    let (blobs, files) = (Arc::new(InMemory::new()), Arc::new(InMemory::new()));
    let root = LargeOptions::default().root;
    let options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
    let store: Arc<dyn TableStore> = from.clone();
    let db = Database::with_options(store, options).with_blobs(blobs.clone());
    let table = db.table::<Session>(name.clone())?;
    table.declare().await?;
    let (user, text) = ("ann".to_owned(), "a long text".to_owned());
    table
        .insert(&Session {
            user,
            number: 1,
            name: "n".into(),
            text,
            until: None,
            deleted: None,
        })
        .await?;
    let with_blobs = |files: &Arc<InMemory>| {
        BackupJob::new(from.clone(), "s", directory(files)).with_blobs(blobs.clone(), root.clone())
    };
    assert!(with_blobs(&files).run().await?.backup.has_blobs);

    let to = Rig::bare();
    let job = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .with_options(once())
        .rows_only();
    let job = job.trust_definitions();
    to.faults.crash_at(4, CrashPoint::After);
    job.run().await.unwrap_err();
    to.faults.heal();
    let target = Arc::new(InMemory::new());
    let other = RestoreJob::open(directory(&files), to.store.clone()).await?;
    let other = other
        .with_blobs(target.clone(), root.clone())
        .trust_definitions();
    let error = other.run().await.unwrap_err().to_string();
    assert!(error.contains("another choice of blobs"), "{error}");
    assert_eq!(target.list(None).count().await, 0);
    assert_eq!(job.run().await?.tables, 1);

    // A backup of rows alone does not claim to have the blobs.
    let files = Arc::new(InMemory::new());
    assert!(!with_blobs(&files).rows_only().run().await?.backup.has_blobs);
    Ok(())
}

#[tokio::test]
async fn an_interrupted_restore_continues_at_its_checkpoint() -> Result<()> {
    let (from, files) = (source().await?, Arc::new(InMemory::new()));
    BackupJob::new(from.store.clone(), "the account", directory(&files))
        .run()
        .await?;
    for (request, point) in [
        (4, CrashPoint::Before),
        (8, CrashPoint::After),
        (60, CrashPoint::After),
        (200, CrashPoint::Before),
        (268, CrashPoint::After),
    ] {
        let to = Rig::bare();
        let job = RestoreJob::open(directory(&files), to.store.clone())
            .await?
            .with_options(once());
        to.faults.crash_at(request, point);
        job.run().await.unwrap_err();
        to.faults.heal();
        let report = job.run().await?;
        assert_eq!(report.rows, 25_001, "{request}");
        assert!(
            request < 150 || report.resumed >= 10_000,
            "{request}: {report:?}"
        );
        assert_equal(&from, &to.store).await?;
        let error = job.run().await.unwrap_err().to_string();
        assert!(error.contains("exists and has rows"), "{error}");
    }
    Ok(())
}

/// The position is a number among the chosen tables: it would be of another table.
#[tokio::test]
async fn an_interrupted_restore_is_not_continued_with_other_tables() -> Result<()> {
    let (from, files) = (source().await?, Arc::new(InMemory::new()));
    BackupJob::new(from.store.clone(), "the account", directory(&files))
        .run()
        .await?;
    let to = Rig::bare();
    let job = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .with_options(once());
    to.faults.crash_at(200, CrashPoint::Before);
    job.run().await.unwrap_err();
    to.faults.heal();
    let fewer = RestoreJob::open(directory(&files), to.store.clone()).await?;
    let fewer = fewer.tables([TableName::new("Empty")?, TableName::new("Small")?]);
    let error = fewer.run().await.unwrap_err().to_string();
    assert!(error.contains("has other tables"), "{error}");
    assert_eq!(job.run().await?.rows, 25_001);
    assert_equal(&from, &to.store).await
}

#[tokio::test]
async fn a_damaged_file_is_named_and_nothing_is_written() -> Result<()> {
    let (from, files) = (source().await?, Arc::new(InMemory::new()));
    BackupJob::new(from.store.clone(), "the account", directory(&files))
        .run()
        .await?;
    let file = Path::from("monday/Readings/000001.txt");
    let sound = files.get(&file).await.unwrap().bytes().await.unwrap();
    let mut changed = sound.to_vec();
    changed[1000] ^= 1;
    for (content, fault) in [
        (Some(changed), "checksum"),
        (Some(sound[..sound.len() - 1].to_vec()), "bytes"),
        (None, "missing"),
    ] {
        match content {
            Some(content) => drop(files.put(&file, content.into()).await.unwrap()),
            None => files.delete(&file).await.unwrap(),
        }
        let to = Rig::bare();
        let job = RestoreJob::open(directory(&files), to.store.clone()).await?;
        let alone = job.tables([to.table.clone()]);
        let error = alone.run().await.unwrap_err().to_string();
        assert!(
            error.contains("Readings/000001.txt") && error.contains(fault),
            "{error}"
        );
        assert_eq!(to.meter.total(), 0);
        // The other tables are restored, and the report names the damaged one.
        let report = RestoreJob::open(directory(&files), to.store.clone())
            .await?
            .run()
            .await?;
        assert_eq!((report.tables, report.rows), (2, 1));
        let failed: Vec<_> = report
            .failed
            .iter()
            .map(|(table, error)| format!("{table}: {error}"))
            .collect();
        assert!(
            failed.len() == 1
                && failed[0].contains("Readings/000001.txt")
                && failed[0].contains(fault),
            "{failed:?}"
        );
        let restored = to.store.all_tables(None).await?;
        assert_eq!(
            restored.iter().map(TableName::as_str).collect::<Vec<_>>(),
            ["Empty", "Small"]
        );
    }
    // A table without the damage.
    let to = Rig::bare();
    let small = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .tables([TableName::new("Small")?]);
    assert_eq!(small.run().await?.rows, 1);
    let absent = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .tables([TableName::new("Absent")?]);
    assert!(
        absent
            .run()
            .await
            .unwrap_err()
            .to_string()
            .contains("Empty, Readings, Small")
    );
    let contents = Path::from("monday/backup.json");
    let text = files.get(&contents).await.unwrap().bytes().await.unwrap();
    let text = String::from_utf8_lossy(&text).replace("\"rows\":1,", "\"rows\":2,");
    files.put(&contents, text.into()).await.unwrap();
    let error = RestoreJob::open(directory(&files), to.store.clone())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("backup.json is damaged"), "{error}");
    Ok(())
}

#[tokio::test]
async fn tables_with_rows_are_overwritten_only_on_request() -> Result<()> {
    let (from, files) = (source().await?, Arc::new(InMemory::new()));
    BackupJob::new(from.store.clone(), "the account", directory(&files))
        .run()
        .await?;
    let (to, small) = (Rig::bare(), TableName::new("Small")?);
    to.store.create_table(&small).await?;
    let other = Entity::new("p", "other")?.with("N", 2_i64);
    to.store
        .write(&small, Operation::Insert(other.clone()))
        .await?;
    let refused = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .run()
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("'Small' exists and has rows"),
        "{refused}"
    );
    assert_eq!(
        to.store.all_tables(None).await?,
        std::slice::from_ref(&small)
    );
    let job = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .overwrite();
    assert_eq!(job.run().await?.tables, 3);
    assert_eq!(to.store.query_all(&small, &Query::new()).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn an_incremental_backup_has_the_rows_that_were_written_since() -> Result<()> {
    let from = Rig::new().await?;
    from.store
        .write(&from.table, from.insert("p", 1)?.1)
        .await?;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let time = Ticks::now();
    from.store
        .write(&from.table, from.insert("p", 2)?.1)
        .await?;
    let files = Arc::new(InMemory::new());
    let report = BackupJob::new(from.store.clone(), "s", directory(&files))
        .since(time)
        .run()
        .await?;
    assert_eq!(report.backup.tables[&from.table].rows(), 1);
    let to = Rig::bare();
    let refused = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .run()
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("restore a full backup first"),
        "{refused}"
    );
    assert_eq!(to.meter.total(), 0);
    let job = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .overwrite();
    assert_eq!(job.run().await?.rows, 1);
    Ok(())
}

/// Entries in another table are restored with their entities or not at all, and lookups find them.
#[tokio::test]
async fn indexes_are_restored_with_their_tables() -> Result<()> {
    let from = Arc::new(MemoryStore::new());
    let people = TableName::new("People")?;
    let ages = Placement::OtherTable(TableName::new("Ages")?);
    let index = || Index::keyed("age", ages.clone(), "age_{Age}", "{PartitionKey}_{RowKey}");
    from.create_table(&people).await?;
    from.create_table(&TableName::new("Ages")?).await?;
    let open = async |store: Arc<MemoryStore>| {
        IndexedEntities::open(store, people.clone(), vec![index()?], IndexOptions::local()).await
    };
    open(Arc::clone(&from))
        .await?
        .insert(Entity::new("Sales", "1")?.with("Age", 41))
        .await?;
    let files = Arc::new(InMemory::new());
    let alone = BackupJob::new(from.clone(), "s", directory(&files)).tables([people.clone()]);
    assert!(
        alone
            .run()
            .await
            .unwrap_err()
            .to_string()
            .contains("back up 'Ages' too")
    );
    assert_eq!(files.list(None).count().await, 0, "nothing was written");
    let report = BackupJob::new(from.clone(), "s", directory(&files))
        .run()
        .await?;
    assert_eq!(
        report.backup.tables[&people].index_tables,
        BTreeSet::from([TableName::new("Ages")?])
    );
    let to = Arc::new(MemoryStore::new());
    let alone = RestoreJob::open(directory(&files), to.clone())
        .await?
        .tables([people.clone()]);
    assert!(
        alone
            .run()
            .await
            .unwrap_err()
            .to_string()
            .contains("restore 'Ages' too")
    );
    let job = RestoreJob::open(directory(&files), to.clone()).await?;
    let error = job.run().await.unwrap_err().to_string();
    assert!(
        error.contains("the index 'age' of the table 'People' writes into the table 'Ages'"),
        "{error}"
    );
    assert_eq!(to.all_tables(None).await?, [], "nothing was written");
    assert_eq!(job.definitions().await?.len(), 1);
    assert_eq!(job.trust_definitions().run().await?.tables, 2);
    let restored = open(to).await?;
    let id = restored.declared().await?[0].id();
    let scrub = restored.scrub(&id, crate::index::ScrubMode::Report).await?;
    assert_eq!(scrub.entities, 1);
    assert_eq!(scrub.entries, 1);
    assert_eq!(scrub.dangling, 0);
    assert_eq!(scrub.missing, 0);
    Ok(())
}

/// The files do not depend on how the store pages.
#[tokio::test]
async fn files_are_written_whole() -> Result<()> {
    let (from, files) = (source().await?, Arc::new(InMemory::new()));
    BackupJob::new(from.store.clone(), "s", directory(&files))
        .run()
        .await?;
    let names: BTreeSet<_> = files
        .list(None)
        .map(|file| file.unwrap().location.to_string())
        .collect()
        .await;
    let expected = [
        "Readings/000000.txt",
        "Readings/000001.txt",
        "Readings/000002.txt",
        "Small/000000.txt",
        "backup.json",
    ];
    assert_eq!(names, expected.map(|name| format!("monday/{name}")).into());
    Ok(())
}

/// Azure Table Storage binds ciphertext to the name in lower case, and Cosmos DB to the name as it is written.
#[tokio::test]
async fn ciphertext_that_would_be_unreadable_is_not_restored() -> Result<()> {
    let (from, files) = (Rig::new().await?, Arc::new(InMemory::new()));
    let row = Entity::new("p", "r")?.with(ENCRYPTION_HEADERS[0], vec![2_u8]);
    from.store
        .write(&from.table, Operation::Insert(row))
        .await?;
    let backup = BackupJob::new(from.store.clone(), "the account", directory(&files))
        .run()
        .await?
        .backup;
    assert_eq!(backup.tables[&from.table].encrypted, 1);
    let to: Arc<dyn TableStore> = Arc::new(MemoryStore::with_profile(ServiceProfile::COSMOS_TABLE));
    let refused = RestoreJob::open(directory(&files), to.clone())
        .await?
        .run()
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("the case of table names"),
        "{refused}"
    );
    assert_eq!(to.all_tables(None).await?, []);
    let same = Rig::bare();
    assert_eq!(
        RestoreJob::open(directory(&files), same.store.clone())
            .await?
            .run()
            .await?
            .rows,
        1
    );
    Ok(())
}

/// Entries without their entities, or entities without their entries, would look complete.
#[tokio::test]
async fn tables_that_share_entries_with_a_damaged_one_are_left_out() -> Result<()> {
    let from = Arc::new(MemoryStore::new());
    let [people, ages, other] =
        ["People", "Ages", "Other"].map(|name| TableName::new(name).unwrap());
    for table in [&people, &ages, &other] {
        from.create_table(table).await?;
    }
    from.write(&other, Operation::Insert(Entity::new("p", "1")?))
        .await?;
    let index = Index::keyed(
        "age",
        Placement::OtherTable(ages.clone()),
        "age_{Age}",
        "{PartitionKey}_{RowKey}",
    )?;
    let open = IndexedEntities::open(
        from.clone(),
        people.clone(),
        vec![index],
        IndexOptions::local(),
    );
    open.await?
        .insert(Entity::new("Sales", "1")?.with("Age", 41))
        .await?;
    for damaged in [&people, &ages] {
        let files = Arc::new(InMemory::new());
        BackupJob::new(from.clone(), "s", directory(&files))
            .run()
            .await?;
        files
            .delete(&Path::from(format!("monday/{damaged}/000000.txt")))
            .await
            .unwrap();
        let to = Arc::new(MemoryStore::new());
        let job = RestoreJob::open(directory(&files), to.clone())
            .await?
            .trust_definitions();
        let report = job.run().await?;
        assert_eq!(
            report.failed.keys().collect::<Vec<_>>(),
            [&ages, &people],
            "{damaged}"
        );
        assert_eq!(to.all_tables(None).await?, std::slice::from_ref(&other));
    }
    Ok(())
}

/// A row that the store refuses fails its table; the tables before and after it are restored, and no run calls the table complete,
/// wherever it was interrupted.
#[tokio::test]
async fn a_refused_row_fails_its_table_only() -> Result<()> {
    let (from, files) = (Rig::bare(), Arc::new(InMemory::new()));
    let [first, bad, last] = ["Alpha", "Beta", "Gamma"].map(|name| TableName::new(name).unwrap());
    for table in [&first, &bad, &last] {
        from.store.create_table(table).await?;
        from.store
            .write(table, Operation::Insert(Entity::new("p", "1")?))
            .await?;
    }
    // Longer than the RowKeys of Cosmos DB.
    from.store
        .write(&bad, Operation::Insert(Entity::new("p", "x".repeat(400))?))
        .await?;
    BackupJob::new(from.store.clone(), "s", directory(&files))
        .run()
        .await?;
    for request in 1.. {
        let faults = FaultInjector::new(1);
        let target = MemoryStore::with_profile(ServiceProfile::COSMOS_TABLE);
        let to: Arc<dyn TableStore> = Arc::new(Faulty::new(target, faults.clone()));
        let job = RestoreJob::open(directory(&files), to.clone())
            .await?
            .with_options(once());
        faults.crash_at(request, CrashPoint::After);
        let report = match job.run().await {
            Ok(report) => report,
            Err(_) => {
                faults.heal();
                match job.run().await {
                    // Only the answer to the last request was lost: the tables are as a run leaves them.
                    Err(error) if error.to_string().contains("exists and has rows") => break,
                    report => report?,
                }
            }
        };
        let failed: Vec<_> = report.failed.keys().collect();
        assert_eq!((failed, report.tables), (vec![&bad], 2), "{request}");
        for table in [&first, &last] {
            assert_eq!(
                to.query_all(table, &Query::new()).await?.len(),
                1,
                "{request}: {table}"
            );
        }
        assert!(request < 100, "the last request was interrupted");
    }
    Ok(())
}

/// Sizes that no file of the library has are refused before the file is read; a file is read only in the size that it had.
#[tokio::test]
async fn planted_sizes_are_refused_before_a_file_is_read() -> Result<()> {
    for (rows, bytes, row_bytes) in [(1, 1 << 40, 10), (u64::MAX, 20, 10), (1, 20, u64::MAX)] {
        let (from, files) = (Rig::new().await?, Arc::new(InMemory::new()));
        from.store
            .write(&from.table, from.insert("p", 1)?.1)
            .await?;
        let mut backup = BackupJob::new(from.store.clone(), "s", directory(&files))
            .run()
            .await?
            .backup;
        for chunk in backup
            .tables
            .values_mut()
            .flat_map(|table| &mut table.chunks)
        {
            (chunk.rows, chunk.bytes, chunk.row_bytes) = (rows, bytes, row_bytes);
        }
        backup.complete(&directory(&files)).await?;
        let to = Rig::bare();
        let job = RestoreJob::open(directory(&files), to.store.clone()).await?;
        assert_eq!(job.rows(), rows);
        let error = job.run().await.unwrap_err().to_string();
        assert!(
            error.contains("Readings/000000.txt") && error.contains("at most")
                || error.contains("no file"),
            "{error}"
        );
        assert_eq!(to.meter.total(), 0);
    }
    Ok(())
}

/// A planted position would leave files out.
#[tokio::test]
async fn a_position_outside_of_the_backup_is_refused() -> Result<()> {
    let (from, files) = (source().await?, Arc::new(InMemory::new()));
    BackupJob::new(from.store.clone(), "the account", directory(&files))
        .run()
        .await?;
    let to = Rig::bare();
    let job = RestoreJob::open(directory(&files), to.store.clone())
        .await?
        .with_options(once());
    to.faults.crash_at(8, CrashPoint::After);
    job.run().await.unwrap_err();
    to.faults.heal();
    let first = TableName::new("Empty")?;
    let row = to.store.query_all(&first, &Query::new()).await?.remove(0);
    for (table, file) in [(3, 0), (i64::MAX, 0), (1, 4), (-1, 0), (1, i64::MIN)] {
        let planted = row.clone().with("Table", table).with("Files", file);
        to.store
            .write(&first, Operation::InsertOrReplace(planted))
            .await?;
        let error = job.run().await.unwrap_err().to_string();
        assert!(error.contains("'Table'"), "{table} {file}: {error}");
    }
    Ok(())
}
