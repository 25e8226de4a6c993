//! Blobs of large entities, in directories and in containers: `backup`, `restore`, `copy` and `doctor`.

use std::path::Path;
use std::sync::Arc;

use azurite::Azurite;
use azurite::blobs::azure_container;
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt as _};
use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;
use table_core::prelude::*;
use table_patterns::{Database, Table};

use crate::support::{on_disk, tables};

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Photo", rename_all = "PascalCase")]
struct Photo {
    #[partition_key]
    album: String,
    #[row_key]
    number: u32,
    #[large(over = 10)]
    image: Vec<u8>,
}

async fn photos(store: impl TableStore, blobs: Arc<dyn ObjectStore>) -> Table<Photo> {
    let db = Database::new(store).with_blobs(blobs);
    let photos = db.table::<Photo>("Photos").unwrap();
    photos.declare().await.unwrap();
    photos
}

async fn fill(photos: &Table<Photo>) {
    for number in 1..=2 {
        let photo = Photo {
            album: "2013".to_owned(),
            number,
            image: vec![7; 100 * number as usize],
        };
        photos.insert(&photo).await.unwrap();
    }
}

fn files(directory: &Path) -> Arc<dyn ObjectStore> {
    Arc::new(LocalFileSystem::new_with_prefix(directory).unwrap())
}

/// The length of the image of a photo.
async fn image(photos: &Table<Photo>, number: u32) -> usize {
    photos
        .get_existing(Photo::key("2013", number).unwrap())
        .await
        .unwrap()
        .image
        .len()
}

#[test]
fn blobs_of_a_directory_are_backed_up_restored_and_examined() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    std::fs::create_dir(path("blobs")).unwrap();
    let store = format!("embedded:{}", path("store"));
    on_disk(Path::new(&path("store")), async |store| {
        fill(&photos(store, files(Path::new(&path("blobs")))).await).await;
    });
    let root = path("blobs/large");
    let run = |arguments: &[&str]| tables().args(arguments).assert();
    // Without the blobs, a backup says so.
    run(&["backup", &store, &path("rows")])
        .code(1)
        .stderr(contains("has a value in a blob"));
    run(&["backup", &store, &path("backup"), "--blobs", &root]).success();
    let copy = format!("embedded:{}", path("copy"));
    run(&[
        "restore",
        &path("backup"),
        &copy,
        "--blobs",
        &path("copied/large"),
    ])
    .success();
    let length = on_disk(Path::new(&path("copy")), async |store| {
        image(&photos(store, files(Path::new(&path("copied")))).await, 2).await
    });
    assert_eq!(length, 200);
    let doctor = ["doctor", &*copy, "Photos", "--blobs"];
    run(&[&doctor[..], &[&path("copied/large")]].concat())
        .success()
        .stdout(contains("nothing is wrong"));
    let empty = path("empty");
    std::fs::create_dir(&empty).unwrap();
    let damaged = run(&[&doctor[..], &[&empty]].concat()).code(4);
    damaged.stdout(contains(
        "missing blobs: rows whose large values are missing (2)",
    ));
    run(&["doctor", &copy, "Photos", "--blobs", "azure:"])
        .code(2)
        .stderr(contains("CONTAINER"));
    run(&["doctor", &copy, "Photos", "--blobs", "azure:photos"])
        .code(2)
        .stderr(contains("AZURE_STORAGE_CONNECTION_STRING"));
}

#[test]
fn blobs_of_a_container_are_copied_and_backed_up() {
    let connection = Azurite::shared().connection_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let container = runtime.block_on(async {
        let container = azure_container(&connection, "photos").await.unwrap();
        let store = AzureTableStore::from_connection_string(&connection, None).unwrap();
        fill(&photos(store, Arc::clone(&container)).await).await;
        container
    });
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    let run = |arguments: &[&str]| {
        let mut command = tables();
        command
            .args(arguments)
            .env("AZURITE_CONNECTION_STRING", &connection)
            .assert()
    };
    let copy = format!("embedded:{}", path("copy"));
    let blobs = ["--blobs", "azurite:photos/large"];
    let to = path("copied/large");
    run(&[
        &[
            "copy",
            "azurite",
            &*copy,
            "--table",
            "Photos",
            "--to-blobs",
            &*to,
        ][..],
        &blobs,
    ]
    .concat())
    .success();
    let length = on_disk(Path::new(&path("copy")), async |store| {
        image(&photos(store, files(Path::new(&path("copied")))).await, 1).await
    });
    assert_eq!(length, 100);
    let backup = path("backup");
    run(&[
        &["backup", "azurite", &*backup, "--table", "Photos"][..],
        &blobs,
    ]
    .concat())
    .success();
    run(&[&["doctor", "azurite", "Photos"][..], &blobs].concat()).success();
    // A backup in a container, and from there into a store.
    let place = "azurite:photos/backups/monday";
    run(&[
        &["backup", "azurite", place, "--table", "Photos"][..],
        &blobs,
    ]
    .concat())
    .success();
    run(&[
        "backup",
        "azurite",
        place,
        "--table",
        "Photos",
        "--rows-only",
    ])
    .code(2)
    .stderr(contains("has a complete backup"));
    let restored = format!("embedded:{}", path("restored"));
    run(&["restore", place, &restored, "--check"])
        .success()
        .stdout(contains("is complete: 1 tables"));
    run(&[
        "restore",
        place,
        &restored,
        "--blobs",
        &path("restored-blobs/large"),
    ])
    .success();
    let length = on_disk(Path::new(&path("restored")), async |store| {
        image(
            &photos(store, files(Path::new(&path("restored-blobs")))).await,
            2,
        )
        .await
    });
    assert_eq!(length, 200);
    run(&["restore", "azurite:photos/backups/absent", &restored])
        .code(4)
        .stderr(contains("backup.json"));
    runtime.block_on(async {
        let mut listed = container.list(Some(&"large".into()));
        let blob = futures_util::StreamExt::next(&mut listed)
            .await
            .unwrap()
            .unwrap();
        container.delete(&blob.location).await.unwrap();
    });
    let missing = run(&[&["doctor", "azurite", "Photos", "--json"][..], &blobs].concat()).code(4);
    missing.stdout(contains(r#""problem":"missing_blob""#).and(contains(r#""count":1"#)));
}
