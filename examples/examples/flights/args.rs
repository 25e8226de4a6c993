//! The arguments of the program.

use std::path::{Path, PathBuf};

use clap::Parser;
use examples::data::{DATA_HELP, directory};
use examples::store::StoreSpec;

/// Loads the flights from New York City's airports in 2013 into a table store and answers questions about them.
#[derive(Debug, Parser)]
#[command(name = "flights")]
pub(crate) struct Args {
    /// Where the tables are stored: `memory`, `embedded:DIR` on disk, `azurite` (starts the emulator), or
    /// `azure` with AZURE_STORAGE_CONNECTION_STRING. The program drops and creates its tables in this store,
    /// unless they have the complete data set; it refuses a store with tables of these names that it has not
    /// created. [default: embedded:target/flights-january, or with --data embedded:target/flights-data]
    #[arg(long, value_name = StoreSpec::FORMS)]
    store: Option<StoreSpec>,
    #[arg(long, value_name = "DIR", help = DATA_HELP)]
    pub(crate) data: Option<PathBuf>,
    /// Print one JSON object per question instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw the day's temperatures and the flights per day as SVG files in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}

impl Args {
    /// Returns the requested store. By default the bundled data and other data have separate directories.
    pub(crate) fn store(&self) -> StoreSpec {
        let name = if self.data.is_some() {
            "flights-data"
        } else {
            "flights-january"
        };
        let workspace = package().parent().unwrap_or(package());
        let default = || StoreSpec::Embedded(workspace.join("target").join(name));
        self.store.clone().unwrap_or_else(default)
    }

    /// Returns the directory of the data set.
    pub(crate) fn data(&self) -> PathBuf {
        directory(self.data.as_deref())
    }
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
