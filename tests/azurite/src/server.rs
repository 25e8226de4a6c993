use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::install::{installed, node_missing};

/// A running emulator with tables, queues and blobs on free ports of this machine, and without files on disk.
///
/// It ends when this value is dropped, or with the process.
#[derive(Debug)]
pub struct Azurite {
    tables: String,
    queues: String,
    blobs: String,
    _emulator: Running,
    _server: Option<Running>,
}

/// A program that ends when this value is dropped, or with the process, because it holds the other end of a pipe.
#[derive(Debug)]
struct Running {
    out: BufReader<ChildStdout>,
    _lifeline: ChildStdin,
    _process: Child,
}

impl Running {
    fn start(command: &mut Command) -> Result<Self, String> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|e| format!("{} does not start: {e}", command.get_program().display()))?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(lifeline), Some(out)) => Ok(Self {
                out: BufReader::new(out),
                _lifeline: lifeline,
                _process: process,
            }),
            _ => Err("the pipes of a program are missing".to_owned()),
        }
    }
}

/// The environment variable with the path of the program `tables`. If it is set, `tables serve` takes the place of the emulator's tables; queues and
/// blobs stay the emulator's.
const SERVER: &str = "TABLES_SERVER";

/// The emulator's public account.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

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
        let Self {
            tables,
            queues,
            blobs,
            ..
        } = self;
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
        let mut emulator =
            Running::start(&mut command(&directory)).map_err(|e| node_missing(&e))?;
        let blobs = address(&mut emulator.out, "Blob")?;
        let queues = address(&mut emulator.out, "Queue")?;
        let tables = address(&mut emulator.out, "Table")?;
        let Some(program) = std::env::var_os(SERVER) else {
            return Ok(Self {
                tables,
                queues,
                blobs,
                _emulator: emulator,
                _server: None,
            });
        };
        let (server, tables) = serve(&program)?;
        Ok(Self {
            tables,
            queues,
            blobs,
            _emulator: emulator,
            _server: Some(server),
        })
    }

    /// Whether `tables serve` takes the place of the emulator's tables, which then have none of the emulator's deviations.
    pub fn is_replaced() -> bool {
        std::env::var_os(SERVER).is_some()
    }
}

/// Starts `tables serve` and returns the address of its account.
fn serve(program: &OsStr) -> Result<(Running, String), String> {
    let mut command = Command::new(program);
    command.args(["serve", "memory", "--listen", "127.0.0.1:0", "--until-eof"]);
    let mut server = Running::start(&mut command)?;
    let mut line = String::new();
    server.out.read_line(&mut line).map_err(|e| e.to_string())?;
    let endpoint = line
        .trim()
        .trim_end_matches(';')
        .split_once("TableEndpoint=");
    let (_, endpoint) =
        endpoint.ok_or_else(|| format!("`tables serve` does not print an address: {line}"))?;
    let endpoint = endpoint.to_owned();
    Ok((server, endpoint))
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
    Err(format!(
        "Azurite did not start (it needs Node.js 20 or later):\n{said}"
    ))
}

fn command(directory: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("run.js"));
    for service in ["blob", "queue", "table"] {
        command.args([format!("--{service}Host"), "127.0.0.1".to_owned()]);
        command.args([format!("--{service}Port"), "0".to_owned()]);
    }
    command
        .args([
            "--silent",
            "--disableTelemetry",
            "--inMemoryPersistence",
            "--skipApiVersionCheck",
        ])
        .current_dir(directory);
    command
}

/// Returns the address in the line that a service prints when it is ready.
fn listening<'a>(line: &'a str, service: &str) -> Option<&'a str> {
    line.strip_prefix("Azurite ")?
        .strip_prefix(service)?
        .strip_prefix(" service is successfully listening at ")
        .map(str::trim)
}
