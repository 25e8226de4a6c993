//! Files that are not a sound store of this format: the errors are clear and no byte changes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use redb::{Database, TableDefinition, WriteTransaction};
use table_core::store::{Error, ErrorKind, TableStore};
use table_embedded::EmbeddedStore;

use crate::support::{Place, count, fill, key, name};

/// Returns a closed store with rows.
async fn sound() -> Place {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 3000).await;
    store.close().await.unwrap();
    place
}

/// Returns the error of opening, after checking that it names the file and that the file is unchanged.
async fn refused(place: &Place) -> Error {
    let before = fs::read(place.file()).unwrap();
    let error = EmbeddedStore::open(place.path())
        .await
        .expect_err("it must be refused");
    assert!(
        fs::read(place.file()).unwrap() == before,
        "the file was changed: {error}"
    );
    assert!(matches!(error.kind(), ErrorKind::Storage(_)), "{error:?}");
    assert!(
        error.to_string().contains(place.file().to_str().unwrap()),
        "{error}"
    );
    error
}

#[tokio::test]
async fn an_empty_file_is_damaged() {
    let place = Place::new();
    fs::create_dir_all(place.path()).unwrap();
    fs::write(place.file(), b"").unwrap();
    assert!(
        refused(&place)
            .await
            .to_string()
            .contains("is damaged: it is empty")
    );
}

#[tokio::test]
async fn a_file_of_another_program_is_foreign() {
    let place = Place::new();
    fs::create_dir_all(place.path()).unwrap();
    fs::write(place.file(), b"SQLite format 3\0 and so on").unwrap();
    assert!(
        refused(&place)
            .await
            .to_string()
            .contains("not the file of a table store")
    );
}

#[tokio::test]
async fn a_database_of_the_same_engine_without_our_tables_is_foreign() {
    const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("theirs");
    let place = Place::new();
    fs::create_dir_all(place.path()).unwrap();
    let database = Database::create(place.file()).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TABLE).unwrap().insert(1, 1).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert!(
        refused(&place)
            .await
            .to_string()
            .contains("not the file of a table store")
    );
}

#[tokio::test]
async fn another_format_is_refused_with_its_number() {
    const META: TableDefinition<'_, &str, u64> = TableDefinition::new("table-embedded");
    for format in [1, 7] {
        let place = sound().await;
        change(&place, |transaction| {
            transaction
                .open_table(META)
                .unwrap()
                .insert("format", format)
                .unwrap();
        });
        assert!(
            refused(&place)
                .await
                .to_string()
                .contains(&format!("is in format {format}"))
        );
    }
}

const DICTIONARY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("heads");

#[tokio::test]
async fn an_unreadable_dictionary_entry_is_damage() {
    for entry in [&b""[..], b"\x07\x02\0a", b"\x09\x01\0a", b"\x07\x01\0\xFF"] {
        let place = sound().await;
        change(&place, |transaction| {
            transaction
                .open_table(DICTIONARY)
                .unwrap()
                .insert(1, entry)
                .unwrap();
        });
        assert!(
            refused(&place).await.to_string().contains("is damaged"),
            "{entry:?}"
        );
    }
}

#[tokio::test]
async fn rows_without_their_dictionary_entries_are_damaged() {
    let place = sound().await;
    change(&place, |transaction| {
        transaction
            .open_table(DICTIONARY)
            .unwrap()
            .retain(|_, _| false)
            .unwrap();
    });
    let store = place.open().await;
    let error = store
        .get(&name("Things"), &key("p", "0000007"), None)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("('p', '0000007') is damaged"),
        "{error}"
    );
    let query = table_core::query::Query::new();
    let error = store
        .query(&name("Things"), &query, None)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("of the stored row ('p', '0000000') are damaged"),
        "{error}"
    );
}

/// Changes the database of a closed store, as another program could.
fn change(place: &Place, change: impl FnOnce(&WriteTransaction)) {
    let database = Database::open(place.file()).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

#[tokio::test]
async fn a_file_truncated_at_any_place_is_damaged() {
    let place = sound().await;
    let whole = fs::read(place.file()).unwrap();
    let ends = [
        1,
        8,
        9,
        63,
        320,
        4096,
        5000,
        whole.len() / 2,
        whole.len() - 4096,
        whole.len() - 1,
    ];
    for end in ends {
        fs::write(place.file(), &whole[..end]).unwrap();
        let error = refused(&place).await;
        assert!(
            error.to_string().contains("is damaged"),
            "cut at {end}: {error}"
        );
    }
}

#[tokio::test]
async fn a_file_with_a_damaged_header_is_refused() {
    let place = sound().await;
    let whole = fs::read(place.file()).unwrap();
    for at in [12, 16, 20, 24, 28] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        fs::write(place.file(), &damaged).unwrap();
        let error = refused(&place).await;
        assert!(
            error.to_string().contains("is damaged"),
            "byte {at}: {error}"
        );
    }
}

#[tokio::test]
async fn an_overwritten_page_is_damaged() {
    let place = sound().await;
    let whole = fs::read(place.file()).unwrap();
    let row = whole
        .windows(7)
        .rposition(|bytes| bytes == b"0001234")
        .unwrap();
    let mut damaged = whole.clone();
    damaged[row] ^= 0x55;
    fs::write(place.file(), &damaged).unwrap();
    assert!(refused(&place).await.to_string().contains("is damaged"));
}

#[tokio::test]
async fn without_verification_a_damaged_page_is_an_error_when_read() {
    let place = sound().await;
    let mut bytes = fs::read(place.file()).unwrap();
    // A value is followed by other rows; this changes the filler text of one value.
    let filler = bytes
        .windows(300)
        .rposition(|bytes| bytes == [b'x'; 300])
        .unwrap();
    bytes[filler + 150] = b'y';
    // After opening, because a debug build of the engine checks all pages when it opens a file.
    let builder = EmbeddedStore::builder(place.path())
        .verify_up_to(0)
        .cache_bytes(0);
    let store = builder.open().await.unwrap();
    fs::write(place.file(), &bytes).unwrap();
    let mut damaged = 0;
    for n in 0..3000 {
        let read = store
            .get(&name("Things"), &key("p", &format!("{n:07}")), None)
            .await;
        if let Err(error) = read {
            assert!(error.to_string().contains("is damaged"), "{error}");
            damaged += 1;
        }
    }
    // The rows of one page.
    assert!((1..20).contains(&damaged), "{damaged} rows");
    let query = table_core::query::Query::new();
    let mut scans = vec![store.query(&name("Things"), &query, None).await];
    while let Ok(Some(next)) = scans
        .last()
        .unwrap()
        .as_ref()
        .map(|found| found.page.continuation.clone())
    {
        scans.push(store.query(&name("Things"), &query, Some(&next)).await);
    }
    assert!(
        scans
            .pop()
            .unwrap()
            .unwrap_err()
            .to_string()
            .contains("is damaged")
    );
}

#[tokio::test]
async fn a_file_in_place_of_the_directory_is_refused() {
    let place = Place::new();
    fs::write(place.path(), b"mine").unwrap();
    let error = EmbeddedStore::open(place.path()).await.unwrap_err();
    assert!(error.to_string().contains("is not a directory"), "{error}");
    assert_eq!(fs::read(place.path()).unwrap(), b"mine");
}

#[tokio::test]
async fn an_unfinished_file_left_by_a_crash_is_replaced() {
    let place = Place::new();
    fs::create_dir_all(place.path()).unwrap();
    fs::write(place.path().join("tables.redb.new"), b"half of it").unwrap();
    place
        .open()
        .await
        .create_table(&name("Things"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_second_handle_in_the_process_is_refused() {
    let place = Place::new();
    let first = place.open().await;
    let error = EmbeddedStore::open(place.path()).await.unwrap_err();
    assert_in_use(&error, &place.path());
    first.create_table(&name("Things")).await.unwrap();
}

fn assert_in_use(error: &Error, path: &Path) {
    assert!(error.to_string().contains("is already open"), "{error}");
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
}

const CHILD: &str = "TABLE_EMBEDDED_TEST_CHILD";

/// The test starts itself as the other process.
#[tokio::test]
async fn a_second_process_is_refused() {
    if let Some(path) = std::env::var_os(CHILD) {
        return hold_open(Path::new(&path)).await;
    }
    let place = sound().await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "files::a_second_process_is_refused",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, place.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("the child has it")));

    assert_in_use(
        &EmbeddedStore::open(place.path()).await.unwrap_err(),
        &place.path(),
    );
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(count(&place.open().await, &name("Things")).await, 3000);
}

#[expect(clippy::print_stdout, reason = "the parent waits for the line")]
async fn hold_open(path: &Path) {
    let store = EmbeddedStore::open(path).await.unwrap();
    println!("\nthe child has it");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    store.close().await.unwrap();
}
