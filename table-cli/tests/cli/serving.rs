//! The program as a server process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use table_azure::AzureTableStore;
use table_core::model::TableName;

/// A server process that is killed when it is dropped.
pub(crate) struct Serving {
    pub(crate) process: Child,
    /// The connection strings that it printed.
    pub(crate) printed: Vec<String>,
}

impl Serving {
    /// Starts `tables serve` on a free port, and waits for a connection string per account.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)], accounts: usize) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tables"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--until-eof"])
            .args(arguments);
        command.envs(environment.iter().copied());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program starts");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let printed = lines
            .take(accounts)
            .collect::<Result<_, _>>()
            .expect("text");
        Self { process, printed }
    }

    pub(crate) fn client(&self) -> AzureTableStore {
        AzureTableStore::from_connection_string(&self.printed[0], None)
            .expect("a connection string")
    }

    /// The address on which it listens.
    pub(crate) fn address(&self) -> &str {
        let endpoint = self.printed[0]
            .split("TableEndpoint=http://")
            .nth(1)
            .expect("an endpoint");
        endpoint.split('/').next().expect("an address")
    }

    /// Sends a request without a credential, and returns the answer.
    pub(crate) fn get(&self, path: &str) -> String {
        let address = self.address();
        let mut stream = TcpStream::connect(address).expect("the server listens");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )
        .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Waits for the end. Returns whether it was a success, and standard error.
    pub(crate) fn ended(mut self) -> (bool, String) {
        let mut text = String::new();
        self.process
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut text)
            .expect("text");
        (self.process.wait().expect("an end").success(), text)
    }

    /// Ends standard input and waits.
    pub(crate) fn end(mut self) -> (bool, String) {
        drop(self.process.stdin.take());
        self.ended()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn table() -> TableName {
    TableName::new("Employees").expect("a legal name")
}

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new()
        .expect("a runtime")
        .block_on(work)
}
