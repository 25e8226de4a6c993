//! The arguments of the program.

use std::path::{Path, PathBuf};

use clap::Parser;
use examples::store::StoreSpec;

/// Loads the flights from New York City's airports in 2013 into a table store and answers questions about them.
#[derive(Debug, Parser)]
#[command(name = "flights")]
pub(crate) struct Args {
    /// Where the tables are stored: `memory`, `embedded:DIR` on disk, `azurite` (starts the emulator), or
    /// `azure` with AZURE_STORAGE_CONNECTION_STRING. A second run on the same store does not load again.
    /// [default: embedded, in the build's target directory]
    #[arg(long, value_name = StoreSpec::FORMS)]
    store: Option<StoreSpec>,
    /// The data set: flights, weather, planes and airlines as .csv or .csv.zst. [default: January 2013,
    /// bundled]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print one JSON object per question instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw the day's temperatures and the flights per day as SVG files in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}

impl Args {
    /// Returns the requested store. By default every data set has its own directory.
    pub(crate) fn store(&self) -> StoreSpec {
        let name = if self.data.is_some() { "flights-data" } else { "flights-january" };
        let workspace = package().parent().unwrap_or(package());
        let default = || StoreSpec::Embedded(workspace.join("target").join(name));
        self.store.clone().unwrap_or_else(default)
    }

    /// Returns the directory of the data set.
    pub(crate) fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| package().join("data"))
    }
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
