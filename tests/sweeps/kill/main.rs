//! Kills a process that writes to an embedded store at random moments, and checks the store: every acknowledged
//! write is stored with its ETag, no group is torn, and no ETag was used twice. With relaxed durability the
//! store holds all writes up to one of them.
//!
//! The test runs itself as the writer. The writer prints each acknowledged write.

mod findings;
mod writer;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use table_core::model::TableName;
use table_embedded::Durability;

use crate::findings::Findings;

const GROUP: usize = 10;
const DIRECTORY: &str = "KILL_TEST_DIRECTORY";
const ROUND: &str = "KILL_TEST_ROUND";

/// A kind of writer.
struct Plan {
    /// The name of the test, which the writer process runs, too.
    test: &'static str,
    durability: Durability,
    kills: usize,
    /// The maximum time of writing before the kill, in microseconds.
    writing: u64,
    /// Whether the writer also compacts and backs up the file.
    maintains: bool,
}

#[test]
fn a_killed_writer_loses_no_acknowledged_write_and_tears_no_group() {
    Plan {
        test: "a_killed_writer_loses_no_acknowledged_write_and_tears_no_group",
        durability: Durability::Immediate,
        kills: 60,
        writing: 60_000,
        maintains: false,
    }
    .run();
}

#[test]
fn a_killed_relaxed_writer_loses_only_the_last_writes_and_tears_no_group() {
    Plan {
        test: "a_killed_relaxed_writer_loses_only_the_last_writes_and_tears_no_group",
        durability: Durability::Relaxed,
        kills: 30,
        writing: 250_000,
        maintains: false,
    }
    .run();
}

#[test]
fn a_writer_killed_during_compaction_and_backup_leaves_only_complete_backups() {
    Plan {
        test: "a_writer_killed_during_compaction_and_backup_leaves_only_complete_backups",
        durability: Durability::Immediate,
        kills: 30,
        writing: 100_000,
        maintains: true,
    }
    .run();
}

impl Plan {
    fn run(&self) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        if let (Some(directory), Ok(round)) = (std::env::var_os(DIRECTORY), std::env::var(ROUND)) {
            return runtime.block_on(writer::write_until_killed(
                Path::new(&directory),
                self.durability,
                &round,
                self.maintains,
            ));
        }
        let directory = tempfile::tempdir().unwrap();
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut found = Findings::new(directory.path().join("store"), self.durability);
        for round in 0..self.kills {
            let acknowledged = self.write_and_kill(directory.path(), round, &mut random);
            runtime.block_on(found.check(round, &acknowledged, seed));
            runtime.block_on(findings::check_backups(
                directory.path(),
                &acknowledged,
                self.maintains,
            ));
        }
        assert!(
            found.kept > 10 * self.kills,
            "too few inserts were kept: {}",
            found.kept
        );
        runtime.block_on(found.check_all());
    }

    /// Returns the lines that a writer printed before it was killed.
    fn write_and_kill(
        &self,
        directory: &Path,
        round: usize,
        random: &mut fastrand::Rng,
    ) -> Vec<String> {
        let mut writer = self.spawn_writer(directory, round);
        let mut lines = BufReader::new(writer.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        // One writer in six is killed while it opens, and possibly recovers, the store.
        if random.u8(..6) == 0 {
            sleep(Duration::from_millis(random.u64(..30)));
        } else {
            assert!(
                lines.any(|line| line.ends_with("writing")),
                "the writer did not start"
            );
            sleep(Duration::from_micros(random.u64(..self.writing)));
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        lines.collect()
    }

    fn spawn_writer(&self, directory: &Path, round: usize) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args([self.test, "--exact", "--nocapture"])
            .env(DIRECTORY, directory.join("store"))
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

fn table() -> TableName {
    TableName::new("Killed").unwrap()
}

fn partition(round: impl std::fmt::Display, task: usize) -> String {
    format!("r{round:0>4}-{task}")
}
