//! Interoperability of the Azure store with the current Python and Node clients on the emulator: each client
//! reads the entities of the others and uses their signatures. The last Python client with client-side encryption
//! checks the format v1. With `server`, the same on this library's server, and all further operations of the other
//! clients.
//!
//! `interop/run` starts this program; `interop/README.md` describes it.

mod client;
mod encryption_v1;
mod neutral;
mod orders;
mod ours;
mod report;
mod sample;
mod signatures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use conformance::azurite::Azurite;
use table_azure::AzureTableStore;
use table_core::model::TableName;
use table_server::{EMULATOR_ACCOUNT, EMULATOR_KEY, TestServer};
use tokio::runtime::Runtime;

use client::{Check, Client, Service};
use report::Report;

type Failure = Box<dyn std::error::Error>;

const USAGE: &str = "usage: interop DIRECTORY emulator|server";

fn main() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or(USAGE)?);
    let runtime = tokio::runtime::Runtime::new()?;
    let report = match arguments.next().as_deref() {
        None | Some("emulator") => on_emulator(&runtime, &directory)?,
        Some("server") => on_server(&runtime, &directory)?,
        Some(_) => return Err(USAGE.into()),
    };
    report.print_summary()?;
    Ok(if report.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn on_emulator(runtime: &Runtime, directory: &Path) -> Result<Report, Failure> {
    let emulator = Azurite::shared();
    let (account, key) = emulator.account();
    let service = Service {
        endpoint: emulator.tables().to_owned(),
        connection_string: emulator.connection_string(),
        account: account.to_owned(),
        key: key.to_owned(),
    };
    everything(runtime, directory, &service)
}

fn on_server(runtime: &Runtime, directory: &Path) -> Result<Report, Failure> {
    let server = TestServer::start_on_thread();
    let service = Service {
        endpoint: server.endpoint().to_owned(),
        connection_string: server.connection_string(),
        account: EMULATOR_ACCOUNT.to_owned(),
        key: EMULATOR_KEY.to_owned(),
    };
    let mut report = everything(runtime, directory, &service)?;
    let sample = directory.join("sample.json");
    let store = AzureTableStore::from_connection_string(&service.connection_string, None)?;
    for client in Client::both(&service, &sample) {
        report.add(
            client.name,
            "typed queries find its rows",
            runtime.block_on(orders::find(&store, &client)),
        )?;
    }
    for client in Client::of_server(&service, &sample) {
        report.add(client.name, "operations on the server", client.run(&[]))?;
    }
    let azure_storage = Client::azure_storage(&service, &sample);
    report.add(
        azure_storage.name,
        "operations on the server",
        azure_storage.run(&[]),
    )?;
    Ok(report)
}

fn everything(runtime: &Runtime, directory: &Path, service: &Service) -> Result<Report, Failure> {
    let sample = directory.join("sample.json");
    fs::write(
        &sample,
        serde_json::to_vec(&neutral::entities(&sample::entities()))?,
    )?;
    let store = Arc::new(AzureTableStore::from_connection_string(
        &service.connection_string,
        None,
    )?);
    let mut report = runtime.block_on(run(&store, &Client::both(service, &sample)))?;
    let client = Client::encryption_v1(service, &sample);
    runtime.block_on(encryption_v1::run(&store, &client, directory, &mut report))?;
    Ok(report)
}

async fn run(store: &AzureTableStore, clients: &[Client<'_>]) -> Result<Report, Failure> {
    let mut report = Report::default();
    let table = TableName::new("Rust")?;
    let written = ours::write(store, &table)
        .await
        .map(|()| vec![Check::of("every operation", &[])]);
    report.add("Rust", "writes the sample", written.map_err(Failure::from))?;
    for client in clients {
        let theirs = TableName::new(client.name)?;
        report.add(
            client.name,
            "reads rows of table-azure",
            client.run(&["read", table.as_str()]),
        )?;
        report.add(
            client.name,
            "writes the sample",
            client.run(&["write", theirs.as_str()]),
        )?;
        report.add(
            client.name,
            "its rows are read",
            Ok(ours::read(store, &theirs).await),
        )?;
        report.add(
            client.name,
            "its rows are read by a type",
            orders::read(store, client).await,
        )?;
        report.add(
            client.name,
            "reads rows of a type",
            orders::write(store, client).await,
        )?;
        report.add(
            client.name,
            "ETags in both directions",
            ours::versions(store, &table, client).await,
        )?;
        report.add(
            client.name,
            "uses signatures of table-azure",
            signatures::given(store, &table, client),
        )?;
        report.add(
            client.name,
            "its signatures are accepted",
            signatures::taken(&table, client).await,
        )?;
    }
    Ok(report)
}
