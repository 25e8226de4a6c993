use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use azurite::Azurite;
use serde::Deserialize;

use crate::measure::{Cost, Operation};

/// The Node client in a separate process, which runs a round for each line of its input.
pub(crate) struct Node {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    _process: Child,
}

#[derive(Deserialize)]
struct Answer {
    cpu_microseconds: f64,
    wall_microseconds: f64,
}

impl Node {
    pub(crate) fn start(emulator: &Azurite, table: &str) -> Self {
        let (account, key) = emulator.account();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("node.mjs");
        let mut process = Command::new("node")
            .arg(script)
            .args([emulator.tables(), account, key, table])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        let (requests, answers) = (
            process.stdin.take().unwrap(),
            process.stdout.take().unwrap(),
        );
        Self {
            requests,
            answers: BufReader::new(answers),
            _process: process,
        }
    }

    pub(crate) fn round(&mut self, operation: Operation, partition: &str) -> Cost {
        let line = format!("{operation:?} {} {partition}\n", operation.count());
        self.requests.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let answer: Answer = serde_json::from_str(&answer).expect("a line of JSON with the times");
        let time = |microseconds: f64| Duration::from_secs_f64(microseconds / 1e6);
        Cost::new(
            operation,
            time(answer.cpu_microseconds),
            time(answer.wall_microseconds),
        )
    }
}
