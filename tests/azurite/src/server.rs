use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::install::{installed, node_missing};

/// A running emulator with tables, queues and blobs on free ports of this machine, and without files on disk.
///
/// The emulator holds the other end of a pipe. It ends when the pipe closes: when this value is dropped, or
/// with the process.
#[derive(Debug)]
pub struct Azurite {
    tables: String,
    queues: String,
    blobs: String,
    _lifeline: ChildStdin,
    _out: BufReader<ChildStdout>,
    _process: Child,
}

/// The emulator's public account.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

impl Azurite {
    /// Returns the emulator of this process. The first call starts it.
    ///
    /// # Panics
    ///
    /// The emulator cannot be installed or started; the message names the missing part.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Azurite> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().unwrap_or_else(|reason| panic!("{reason}")))
    }

    /// Returns the connection string of its tables, queues and blobs.
    pub fn connection_string(&self) -> String {
        let Self { tables, queues, blobs, .. } = self;
        format!(
            "DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};\
             TableEndpoint={tables};QueueEndpoint={queues};BlobEndpoint={blobs}"
        )
    }

    /// Returns the endpoint of its tables.
    pub fn tables(&self) -> &str {
        &self.tables
    }

    /// Returns the endpoint of its queues.
    pub fn queues(&self) -> &str {
        &self.queues
    }

    /// Returns name and key of the account.
    pub const fn account(&self) -> (&'static str, &'static str) {
        (ACCOUNT, KEY)
    }

    /// Starts a separate emulator, which ends when it is dropped. The first call installs the emulator. Blocks
    /// until the emulator listens.
    ///
    /// # Errors
    ///
    /// The emulator cannot be installed or started; the message names the missing part.
    pub fn start() -> Result<Self, String> {
        let directory = installed()?;
        let mut process = command(&directory).spawn().map_err(|e| node_missing(&e))?;
        let (Some(lifeline), Some(out)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the emulator's pipes are missing".to_owned());
        };
        let mut out = BufReader::new(out);
        let blobs = address(&mut out, "Blob")?;
        let queues = address(&mut out, "Queue")?;
        let tables = address(&mut out, "Table")?;
        Ok(Self { tables, queues, blobs, _lifeline: lifeline, _out: out, _process: process })
    }
}

/// Waits until a service prints its address.
fn address(out: &mut BufReader<ChildStdout>, service: &str) -> Result<String, String> {
    let mut said = String::new();
    for line in out.lines().map_while(Result::ok) {
        if let Some(address) = listening(&line, service) {
            return Ok(format!("{address}/{ACCOUNT}"));
        }
        said.push_str(&line);
        said.push('\n');
    }
    Err(format!("Azurite did not start (it needs Node.js 20 or later):\n{said}"))
}

fn command(directory: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("run.js"));
    for service in ["blob", "queue", "table"] {
        command.args([format!("--{service}Host"), "127.0.0.1".to_owned()]);
        command.args([format!("--{service}Port"), "0".to_owned()]);
    }
    command
        .args(["--silent", "--disableTelemetry", "--inMemoryPersistence", "--skipApiVersionCheck"])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command
}

/// Returns the address in the line that a service prints when it is ready.
fn listening<'a>(line: &'a str, service: &str) -> Option<&'a str> {
    line.strip_prefix("Azurite ")?
        .strip_prefix(service)?
        .strip_prefix(" service is successfully listening at ")
        .map(str::trim)
}
