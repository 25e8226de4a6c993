//! The files that commands write: whole, private, and never in the place of something else.
#![cfg(unix)]

use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use predicates::str::contains;

use crate::support::{embedded, employees, served, tables};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn export(store: &str, to: &Path) -> assert_cmd::Command {
    let mut command = tables();
    command.args([
        "export",
        store,
        "Employees",
        "--format",
        "jsonl",
        "--to",
        to.to_str().unwrap(),
    ]);
    command
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Every file below a directory, and the directories, with their modes.
fn modes(directory: &Path, found: &mut Vec<(bool, u32)>) {
    found.push((true, mode(directory)));
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            modes(&path, found);
        } else {
            found.push((false, mode(&path)));
        }
    }
}

#[test]
fn what_is_written_from_a_store_is_private() {
    let (_source, store) = embedded(employees());
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::set_permissions(&out, Permissions::from_mode(0o700)).unwrap();
    let at = |name: &str| out.join(name).display().to_string();
    export(&store, &out.join("all.jsonl")).assert().success();
    for format in ["csv", "parquet", "jsonl.zst"] {
        let to = at(&format!("all.{format}"));
        tables()
            .args(["export", &store, "Employees", "--to", &to])
            .assert()
            .success();
    }
    tables()
        .args(["plot", &store, "Employees", "--to", &at("all.svg")])
        .assert()
        .success();
    tables()
        .args(["backup", &store, &at("monday/deep")])
        .assert()
        .success();
    tables()
        .args([
            "restore",
            &at("monday/deep"),
            &format!("embedded:{}", at("restored")),
        ])
        .assert()
        .success();
    tables()
        .args(["copy", &store, &format!("embedded:{}", at("copied"))])
        .assert()
        .success();
    let mut found = Vec::new();
    modes(&out, &mut found);
    assert!(found.len() > 12, "{found:?}");
    for (is_directory, mode) in found {
        assert_eq!(mode, if is_directory { 0o700 } else { 0o600 });
    }
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode() {
    let (_source, store) = embedded(employees());
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("shared.jsonl");
    fs::write(&to, "old").unwrap();
    fs::set_permissions(&to, Permissions::from_mode(0o640)).unwrap();
    export(&store, &to).assert().success();
    assert_eq!(
        (mode(&to), fs::read_to_string(&to).unwrap().lines().count()),
        (0o640, 3)
    );
}

#[test]
fn a_link_is_followed_and_stays() {
    let (_source, store) = embedded(employees());
    let place = tempfile::tempdir().unwrap();
    let (link, file) = (
        place.path().join("latest.jsonl"),
        place.path().join("2026.jsonl"),
    );
    symlink("2026.jsonl", &link).unwrap();
    export(&store, &link)
        .assert()
        .code(2)
        .stderr(contains("symbolic link"));
    fs::write(&file, "old").unwrap();
    export(&store, &link).assert().success();
    assert!(link.is_symlink() && !file.is_symlink());
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 3);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
}

#[test]
fn a_pipe_and_a_device_are_written_through() {
    let (_source, store) = embedded(employees());
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    make_fifo(&pipe);
    let path = pipe.clone();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        File::open(path).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    export(&store, &pipe).assert().success();
    assert_eq!(reader.join().unwrap().lines().count(), 3);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    export(&store, Path::new("/dev/null")).assert().success();
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    // Standard output is a pipe here.
    let out = export(&store, Path::new("/dev/stdout")).assert().success();
    assert_eq!(
        String::from_utf8(out.get_output().stdout.clone())
            .unwrap()
            .lines()
            .count(),
        3
    );
}

#[test]
fn an_open_file_is_not_replaced_behind_its_owner() {
    let (_source, store) = embedded(employees());
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let run = Command::new(assert_cmd::cargo::cargo_bin("tables"))
        .args([
            "export",
            &store,
            "Employees",
            "--format",
            "jsonl",
            "--to",
            "/dev/stdout",
        ])
        .stdout(File::create(&out).unwrap())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let text = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{text}");
    assert!(text.contains("give - for standard output"), "{text}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "");
    assert!(Path::new("/dev/stdout").is_symlink());
}

#[test]
fn a_backup_with_a_pipe_is_refused() {
    let (_source, store) = embedded(employees());
    let place = tempfile::tempdir().unwrap();
    let backup = place.path().join("monday");
    tables()
        .args(["backup", &store, backup.to_str().unwrap(), "--quiet"])
        .assert()
        .success();
    let chunk = backup.join("Employees/000000.jsonl.zst");
    for file in [chunk, backup.join("backup.json")] {
        fs::remove_file(&file).unwrap();
        make_fifo(&file);
        for more in [&["--check"][..], &[]] {
            let mut restore = tables();
            restore
                .args(["restore", backup.to_str().unwrap(), "memory"])
                .args(more);
            restore.assert().code(4).stderr(contains("is no file"));
        }
    }
    tables()
        .args(["backup", &store, backup.to_str().unwrap()])
        .assert()
        .code(4)
        .stderr(contains("is no file"));
}

/// A disk that is full: the process may write files of this many blocks of 512 bytes or 1 KiB.
fn with_small_disk(blocks: usize, arguments: &[&str]) -> std::process::Output {
    // The signal would end the process; without it, the write fails as on a full disk.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let program = assert_cmd::cargo::cargo_bin("tables");
    Command::new("sh")
        .args(["-c", &script])
        .arg(program)
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn a_full_disk_ends_an_import_at_once() {
    const ROWS: usize = 4000;
    let place = tempfile::tempdir().unwrap();
    let (file, store) = (
        place.path().join("rows.jsonl"),
        format!("embedded:{}", place.path().join("s").display()),
    );
    let value = "x".repeat(2000);
    let lines: String = (0..ROWS)
        .map(|n| {
            format!(
                "{{\"PartitionKey\":\"p{}\",\"RowKey\":\"{n:05}\",\"V\":\"{value}\"}}\n",
                n % 5
            )
        })
        .collect();
    fs::write(&file, lines).unwrap();
    let import = [
        "import",
        &store,
        "Rows",
        "--from",
        file.to_str().unwrap(),
        "--quiet",
    ];
    let full = with_small_disk(4096, &import);
    let text = String::from_utf8(full.stderr).unwrap();
    assert_eq!(full.status.code(), Some(1), "{text}");
    assert!(
        text.contains("the storage is full") && text.contains("--mode upsert to go on"),
        "{text}"
    );
    assert!(!text.contains("skipped"), "{text}");
    tables()
        .args(import)
        .args(["--mode", "upsert"])
        .assert()
        .success();
    tables()
        .args(["count", &store, "Rows"])
        .assert()
        .success()
        .stdout(format!("{ROWS}\n"));
}

/// A container that accepts requests and never answers.
#[test]
fn a_signal_in_the_check_of_a_restore_is_answered() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let account =
        format!("AccountName=orders;AccountKey=c2VjcmV0;BlobEndpoint=http://{address}/orders");
    let restore = Command::new(assert_cmd::cargo::cargo_bin("tables"))
        .args(["restore", "env:SLOW:backups/monday", "memory", "--check"])
        .env("SLOW", account)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The check has begun.
    let _connection = listener.accept().unwrap();
    assert!(
        Command::new("kill")
            .args(["-TERM", &restore.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let end = restore.wait_with_output().unwrap();
    let text = String::from_utf8(end.stderr).unwrap();
    assert_eq!(end.status.code(), Some(1), "{text}");
    assert!(
        text.contains("error: interrupted: nothing was restored: run the same command again"),
        "{text}"
    );
}

/// The store refuses every row: the import ends with the reason, and counts none as skipped.
#[test]
fn a_refused_credential_ends_a_command() {
    let served = served(employees());
    let mut sign = tables();
    sign.args([
        "sas",
        "table",
        "azure",
        "Employees",
        "--permissions",
        "r",
        "--expires",
        "1h",
        "--with-manifest",
    ]);
    let signed = sign
        .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret)
        .assert()
        .success();
    let url = String::from_utf8(signed.get_output().stdout.clone()).unwrap();
    let csv = "PartitionKey,RowKey,Age\nSales,7,1\nSales,8,2\n";
    for arguments in [
        &[
            "import",
            "env:GUEST",
            "Employees",
            "--from",
            "-",
            "--format",
            "csv",
        ][..],
        &[
            "import",
            "env:GUEST",
            "Employees",
            "--from",
            "-",
            "--format",
            "csv",
            "--mode",
            "upsert",
        ],
        &["delete", "env:GUEST", "Employees", "--all", "--yes"],
    ] {
        let mut command = tables();
        command
            .args(arguments)
            .env("GUEST", url.trim())
            .write_stdin(csv);
        command
            .assert()
            .code(1)
            .stderr(contains("not allowed"))
            .stderr(contains("0 skipped"));
    }
}
