//! The Azure store beside the current Python and Node clients, on the emulator: each reads what the others wrote and
//! uses what the others signed; and the legacy Python client, for what it encrypted. Started by `interop/run`;
//! `interop/README.md` says what it shows.

mod client;
mod legacy;
mod neutral;
mod ours;
mod report;
mod sample;
mod signatures;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use conformance::azurite::Azurite;
use table_azure::AzureTableStore;
use table_core::model::TableName;

use client::Client;
use report::Report;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Failure> {
    let emulator = Azurite::shared();
    let directory = PathBuf::from(std::env::args().nth(1).ok_or("usage: interop DIRECTORY")?);
    let sample = directory.join("sample.json");
    fs::write(&sample, serde_json::to_vec(&neutral::entities(&sample::entities()))?)?;
    let store = Arc::new(AzureTableStore::from_connection_string(&emulator.connection_string(), None)?);
    let runtime = tokio::runtime::Runtime::new()?;
    let mut report = runtime.block_on(run(&store, &Client::both(emulator, &sample)))?;
    let old = Client::legacy(emulator, &sample);
    runtime.block_on(legacy::run(&store, &old, &directory, &mut report))?;
    report.print()?;
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(store: &AzureTableStore, clients: &[Client<'_>]) -> Result<Report, Failure> {
    let mut report = Report::default();
    let table = TableName::new("Rust")?;
    ours::write(store, &table).await?;
    for client in clients {
        let theirs = TableName::new(client.name)?;
        report.add(client.name, "reads ours", client.run(&["read", table.as_str()])?);
        report.add(client.name, "writes", client.run(&["write", theirs.as_str()])?);
        report.add(client.name, "is read by us", ours::read(store, &theirs).await);
        report.add(client.name, "is given our versions", ours::versions(store, &table, client).await?);
        report.add(client.name, "uses our signatures", signatures::given(store, &table, client)?);
        report.add(client.name, "signs for us", signatures::taken(&table, client).await?);
    }
    Ok(report)
}
