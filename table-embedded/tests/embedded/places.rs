//! Locations of a store, and access rights to its files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use table_core::store::{ErrorKind, TableStore};
use table_embedded::EmbeddedStore;

use crate::support::{Place, name};

async fn refused(path: &Path, says: &str) {
    let opened = tokio::time::timeout(Duration::from_secs(20), EmbeddedStore::open(path)).await;
    let error = opened
        .expect("opening waits forever")
        .expect_err("it must be refused");
    assert!(error.to_string().contains(says), "{error}");
}

#[tokio::test]
async fn an_empty_path_is_refused() {
    let before = fs::read_dir(".").unwrap().count();
    let error = EmbeddedStore::open("").await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidArgument(_)),
        "{error:?}"
    );
    let place = Place::new();
    place.open().await.backup("").await.unwrap_err();
    assert_eq!(fs::read_dir(".").unwrap().count(), before);
}

#[tokio::test]
async fn must_exist_creates_nothing() {
    let place = Place::new();
    let open = || EmbeddedStore::builder(place.path()).must_exist().open();
    assert!(
        open()
            .await
            .unwrap_err()
            .to_string()
            .contains("has no store")
    );
    assert!(!place.path().exists());
    fs::create_dir(place.path()).unwrap();
    assert!(
        open()
            .await
            .unwrap_err()
            .to_string()
            .contains("has no store")
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    place.open().await.close().await.unwrap();
    open().await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn closing_twice_is_allowed() {
    let store = Place::new().open().await;
    let clone = store.clone();
    let (first, second) = tokio::join!(store.close(), clone.close());
    first.unwrap();
    second.unwrap();
    store.close().await.unwrap();
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    /// A link to a volume that is not mounted must not be replaced by an empty store.
    #[tokio::test]
    async fn links_without_a_target_are_refused_and_kept() {
        let (place, missing) = (Place::new(), Place::new());
        symlink(missing.path(), place.path()).unwrap();
        refused(&place.path(), "symbolic link without a target").await;
        refused(&place.path().join("below"), "").await;
        assert!(!missing.path().exists());

        let place = Place::new();
        fs::create_dir(place.path()).unwrap();
        for file in ["tables.redb", "lock"] {
            let link = place.path().join(file);
            symlink(missing.path(), &link).unwrap();
            refused(&place.path(), "symbolic link without a target").await;
            assert!(link.symlink_metadata().unwrap().is_symlink());
            fs::remove_file(link).unwrap();
        }
        assert!(!missing.path().exists());
        // The store removes what a crash left, also if a link has replaced it.
        symlink(missing.path(), place.path().join("tables.redb.new")).unwrap();
        place
            .open()
            .await
            .create_table(&name("Things"))
            .await
            .unwrap();
        assert!(!missing.path().exists());
    }

    #[tokio::test]
    async fn links_to_a_store_are_followed() {
        let (place, real) = (Place::new(), Place::new());
        real.open().await.close().await.unwrap();
        symlink(real.path(), place.path()).unwrap();
        place.open().await.close().await.unwrap();
    }

    #[tokio::test]
    async fn pipes_are_refused_without_blocking() {
        let pipe =
            |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        let place = Place::new();
        pipe(&place.path());
        refused(&place.path(), "is not a directory").await;
        for file in ["tables.redb", "lock"] {
            let place = Place::new();
            fs::create_dir(place.path()).unwrap();
            pipe(&place.path().join(file));
            refused(&place.path(), "exists and is not a file").await;
        }
    }

    #[tokio::test]
    async fn files_and_directories_are_accessible_to_the_owner_only() {
        let place = Place::new();
        let nested = place.path().join("a/b");
        let store = EmbeddedStore::open(&nested).await.unwrap();
        store.backup(place.other("copy")).await.unwrap();
        store.close().await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for directory in [
            &place.path(),
            &place.path().join("a"),
            &nested,
            &place.other("copy"),
        ] {
            assert_eq!(mode(directory), 0o700, "{}", directory.display());
        }
        for directory in [nested, place.other("copy")] {
            for file in ["tables.redb", "lock"] {
                assert_eq!(mode(&directory.join(file)), 0o600, "{file}");
            }
        }
    }
}
