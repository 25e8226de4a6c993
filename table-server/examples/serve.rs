//! Serves tables in memory or in a directory to clients of every language.
//!
//! ```text
//! cargo run --release --example serve -- memory
//! cargo run --release --example serve -- embedded:DIR [--listen ADDRESS:PORT] [--account NAME:KEY]…
//! ```
//!
//! Prints the connection string of each account, one per line. Serves until it is interrupted (or until the
//! end of its standard input, with `--until-eof`), then finishes pending requests. Keys are in base64.
//! Without an account it serves the emulator's account, on loopback addresses only. Set `RUST_LOG=info` for
//! an access log on standard error.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::store::TableStore;
use table_embedded::EmbeddedStore;
use table_server::{Account, Server};

type Failure = Box<dyn std::error::Error>;

const USAGE: &str =
    "usage: serve memory|embedded:DIR [--listen ADDRESS:PORT] [--account NAME:KEY]… [--until-eof]";

struct Options {
    store: String,
    listen: SocketAddr,
    accounts: Vec<Account>,
    until_eof: bool,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let store = arguments.next().ok_or(USAGE)?;
        let mut options =
            Self { store, listen: "127.0.0.1:10002".parse()?, accounts: Vec::new(), until_eof: false };
        while let Some(argument) = arguments.next() {
            match &*argument {
                "--listen" => options.listen = arguments.next().ok_or(USAGE)?.parse()?,
                "--account" => {
                    let account = arguments.next().ok_or(USAGE)?;
                    let (name, key) = account.split_once(':').ok_or(USAGE)?;
                    options.accounts.push(Account::new(name, key)?);
                }
                "--until-eof" => options.until_eof = true,
                _ => return Err(USAGE.into()),
            }
        }
        if options.accounts.is_empty() {
            options.accounts.push(Account::emulator());
        }
        Ok(options)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let options = Options::read(std::env::args().skip(1))?;
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    }
    let embedded = match options.store.strip_prefix("embedded:") {
        Some(directory) => Some(EmbeddedStore::open(directory).await?),
        None if options.store == "memory" => None,
        None => return Err(USAGE.into()),
    };
    let store: Arc<dyn TableStore> = match &embedded {
        Some(store) => Arc::new(store.clone()),
        None => Arc::new(MemoryStore::new()),
    };
    let names: Vec<String> = options.accounts.iter().map(|account| account.name().to_owned()).collect();
    let add = |builder: table_server::ServerBuilder, account| builder.account(account, Arc::clone(&store));
    let builder = options.accounts.into_iter().fold(Server::builder().listen(options.listen), add);
    let server = builder.start().await?;
    for name in names {
        let connection = server.connection_string(&name).unwrap_or_default();
        writeln!(std::io::stdout(), "{connection}")?;
    }
    std::io::stdout().flush()?;
    if options.until_eof {
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    } else {
        tokio::signal::ctrl_c().await?;
    }
    let finished = server.stop().await;
    drop(store);
    if let Some(store) = embedded {
        store.close().await?;
    }
    if finished { Ok(()) } else { Err("requests were cut off after the stop time".into()) }
}
