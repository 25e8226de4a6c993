use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Parser;

/// Loads the flights from New York City's airports in 2013 into a table store and answers questions about them.
#[derive(Debug, Parser)]
#[command(name = "flights")]
pub(crate) struct Args {
    /// Where the tables live: `memory`, or `embedded:DIR` on disk. A second run on the same DIR does not
    /// load again. [default: embedded, in the build's target directory]
    #[arg(long, value_name = "memory | embedded:DIR")]
    store: Option<StoreChoice>,
    /// The data set: flights, weather, planes and airlines as .csv or .csv.zst. [default: January 2013,
    /// bundled]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print one JSON object per question instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw the day's temperatures and the flights per day, as SVG files in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}

/// Where the tables live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    Memory,
    Embedded(PathBuf),
}

impl Args {
    /// The store asked for. By default every data set has its own directory.
    pub(crate) fn store(&self) -> StoreChoice {
        let name = if self.data.is_some() { "flights-data" } else { "flights-january" };
        let workspace = package().parent().unwrap_or(package());
        let default = || StoreChoice::Embedded(workspace.join("target").join(name));
        self.store.clone().unwrap_or_else(default)
    }

    /// The directory of the data set.
    pub(crate) fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| package().join("data"))
    }
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl FromStr for StoreChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            Some(("embedded", dir)) if !dir.is_empty() => Ok(Self::Embedded(dir.into())),
            _ => Err("use `memory` or `embedded:DIR`".to_owned()),
        }
    }
}
