//! Azurite, the emulator of Azure Storage, for as long as a command runs.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use table_server::{EMULATOR_ACCOUNT, EMULATOR_KEY};

use crate::failure::{Failure, Result};
use crate::output::remark;

/// The environment variable with the directory of the data.
const DIRECTORY: &str = "TABLES_AZURITE_DIR";
/// The directory of the data in the home directory.
const HOME_DIRECTORY: &str = ".azurite-tables";
/// The program that Node.js runs.
const SCRIPT: &str = include_str!("emulator.js");
/// The exit code of the script if Azurite is not installed.
const NOT_INSTALLED: i32 = 3;
/// What a person can do instead, for errors.
const ALTERNATIVE: &str = "or start an emulator, and set AZURITE_CONNECTION_STRING";
/// The longest time for which the end of the command waits until Azurite has written its data.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time until an installed Azurite listens, also on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(180);
/// The longest time until Azurite listens that npx installs first.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(600);

/// A running emulator, which ends when this value is dropped. Azurite's standard input is a pipe from this program, so Azurite also ends
/// if this program is killed.
#[derive(Debug)]
pub(crate) struct Emulator {
    /// Host and port.
    address: String,
    /// The pipe whose end stops Azurite.
    stdin: Option<ChildStdin>,
    /// Kept open: Azurite ends if it cannot write its output.
    _out: BufReader<ChildStdout>,
    process: Child,
    /// Two emulators would overwrite each other's data. The lock ends with the file handle.
    _lock: File,
    _script: tempfile::TempPath,
}

impl Emulator {
    /// Starts the emulator on a free port of this machine, with its data in `TABLES_AZURITE_DIR` or in the home directory. Takes the
    /// installed Azurite, or lets npx install it, which takes half a minute the first time. Blocks until it listens, for a limited time.
    pub(crate) fn start() -> Result<Self> {
        let directory = directory()?;
        let unusable = |error: std::io::Error| {
            Failure::failed(format!("{} cannot be used: {error}", directory.display()))
        };
        fs::create_dir_all(&directory).map_err(unusable)?;
        let lock = File::create(directory.join("lock")).map_err(unusable)?;
        // Not awaited: the other process may be a server that runs for days.
        if lock.try_lock().is_err() {
            return Err(Failure::failed(format!(
                "another `tables` runs an emulator on {}: wait for its end, set {DIRECTORY} to another directory, {ALTERNATIVE}",
                directory.display()
            )));
        }
        let mut script = tempfile::Builder::new()
            .suffix(".cjs")
            .tempfile()
            .map_err(unusable)?;
        script.write_all(SCRIPT.as_bytes()).map_err(unusable)?;
        let script = script.into_temp_path();
        // An installed Azurite comes first: npx asks the registry, which takes a network and time.
        let started = match start_process(&mut node(&script, &directory), START_TIMEOUT)? {
            Start::Listens(running) => running,
            Start::Ended(Some(NOT_INSTALLED), _) => {
                remark("Azurite is not installed: npx installs it");
                match start_process(&mut npx(&script, &directory), INSTALL_TIMEOUT)? {
                    Start::Listens(running) => running,
                    Start::Ended(_, output) => return Err(not_started(&output)),
                }
            }
            Start::Ended(_, output) => return Err(not_started(&output)),
        };
        let (address, stdin, out, process) = started;
        remark(&format!(
            "started Azurite with the data in {}; it stops at the end",
            directory.display()
        ));
        Ok(Self {
            address,
            stdin: Some(stdin),
            _out: out,
            process,
            _lock: lock,
            _script: script,
        })
    }

    /// Returns the connection string.
    pub(crate) fn connection_string(&self) -> String {
        let (account, key) = (EMULATOR_ACCOUNT, EMULATOR_KEY);
        format!(
            "AccountName={account};AccountKey={key};TableEndpoint=http://{}/{account}",
            self.address
        )
    }
}

/// Waits until the emulator has written its data: the next command may start at once.
impl Drop for Emulator {
    fn drop(&mut self) {
        // The end of the pipe stops Azurite, which then writes its data. Windows has no signal for that, and
        // a process that is killed writes nothing.
        drop(self.stdin.take());
        let started = Instant::now();
        while started.elapsed() < STOP_TIMEOUT {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
    }
}

/// The address, the pipe that stops the emulator, its output, and the process.
type Running = (String, ChildStdin, BufReader<ChildStdout>, Child);

/// How the start of a process ended.
enum Start {
    Listens(Running),
    /// The exit code and the output.
    Ended(Option<i32>, String),
}

fn directory() -> Result<PathBuf> {
    let given = std::env::var_os(DIRECTORY)
        .filter(|given| !given.is_empty())
        .map(PathBuf::from);
    let directory = given.or_else(|| std::env::home_dir().map(|home| home.join(HOME_DIRECTORY)));
    directory.ok_or_else(|| {
        Failure::misuse(format!(
            "there is no home directory for the data of the emulator: set {DIRECTORY}"
        ))
    })
}

fn node(script: &Path, directory: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(script);
    with_azurite_options(command, directory)
}

fn npx(script: &Path, directory: &Path) -> Command {
    // On Windows npx is a batch file, which is not found without its extension.
    let mut command = Command::new(if cfg!(windows) { "npx.cmd" } else { "npx" });
    // Without a question: standard input is the pipe, so there is no answer.
    command
        .args(["--yes", "--package", "azurite", "--", "node"])
        .arg(script);
    with_azurite_options(command, directory)
}

fn with_azurite_options(mut command: Command, directory: &Path) -> Command {
    command
        .args([
            "--silent",
            "--disableTelemetry",
            "--skipApiVersionCheck",
            "--location",
        ])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts a process and waits until it listens or ends. A process that has done neither after `timeout` is killed.
fn start_process(command: &mut Command, timeout: Duration) -> Result<Start> {
    let needs = |error| {
        Failure::failed(format!(
            "the store `azurite` needs Node.js 20 or later with npm ({error}): install it from https://nodejs.org, {ALTERNATIVE}"
        ))
    };
    let mut process = command.spawn().map_err(needs)?;
    let (Some(stdin), Some(out), Some(mut err)) = (
        process.stdin.take(),
        process.stdout.take(),
        process.stderr.take(),
    ) else {
        return Err(Failure::failed("the pipes of the emulator are missing"));
    };
    // Drained on a thread of its own: a full pipe would stop the emulator.
    let errors = thread::spawn(move || {
        let mut output = Vec::new();
        let _ = err.read_to_end(&mut output);
        String::from_utf8_lossy(&output).into_owned()
    });
    // Read on a thread of its own: a read of a pipe has no time limit.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(read_until_listening(BufReader::new(out))));
    match receiver.recv_timeout(timeout) {
        Ok(Output::Listens(address, out)) => Ok(Start::Listens((address, stdin, out, process))),
        Ok(Output::Ended(mut output)) => {
            // Its output has ended, so it is about to end or has ended.
            let code = process.wait().map_err(Failure::failed)?.code();
            output.push_str(&errors.join().unwrap_or_default());
            Ok(Start::Ended(code, output))
        }
        Err(_) => {
            // npx has a child of its own, which the kill does not end. The end of the pipe ends it once it runs.
            drop(stdin);
            let _ = process.kill();
            let _ = process.wait();
            Err(Failure::failed(format!(
                "Azurite did not start within {} seconds: run `npx azurite` to see why, {ALTERNATIVE}",
                timeout.as_secs()
            )))
        }
    }
}

/// The output of a process that starts.
enum Output {
    /// The address in the line that was read last, and the output after it.
    Listens(String, BufReader<ChildStdout>),
    /// The whole output.
    Ended(String),
}

fn read_until_listening(mut out: BufReader<ChildStdout>) -> Output {
    let (mut line, mut output) = (String::new(), String::new());
    while out.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if let Some(address) = listening(&line) {
            return Output::Listens(address.to_owned(), out);
        }
        output.push_str(&line);
        line.clear();
    }
    Output::Ended(output)
}

/// Returns host and port in the line that Azurite prints when it is ready.
fn listening(line: &str) -> Option<&str> {
    line.strip_prefix("Azurite Table service successfully started on ")
        .map(str::trim)
}

fn not_started(output: &str) -> Failure {
    let last = output
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it said nothing");
    Failure::failed(format!(
        "Azurite did not start ({last}): install it with `npm install -g azurite`, {ALTERNATIVE}"
    ))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn start(script: &str, timeout: Duration) -> Result<Start> {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        start_process(&mut command, timeout)
    }

    #[test]
    fn a_process_that_prints_nothing_is_not_awaited_forever() {
        let started = Instant::now();
        let error = start("exec sleep 60", Duration::from_millis(1500))
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("did not start within 1 seconds"), "{error}");
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{:?}",
            started.elapsed()
        );
    }

    #[test]
    fn a_process_listens_or_ends() {
        let script =
            "echo before; echo Azurite Table service successfully started on 127.0.0.1:7; cat";
        let Ok(Start::Listens((address, stdin, _out, mut process))) = start(script, START_TIMEOUT)
        else {
            panic!("it listens");
        };
        assert_eq!(address, "127.0.0.1:7");
        drop(stdin);
        assert!(process.wait().unwrap().success());
        let Ok(Start::Ended(code, output)) = start("echo a; echo b >&2; exit 3", START_TIMEOUT)
        else {
            panic!("it ends");
        };
        assert_eq!((code, &*output), (Some(3), "a\nb\n"));
    }
}
