//! Files of entities: their formats by name, compression, and standard input and output.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::failure::{Failure, Result};

/// The text that stands for standard input or output.
const STANDARD: &str = "-";
/// The end of the name of a file that is being written.
const PARTIAL: &str = ".partial";

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataFormat {
    /// One line of JSON for each entity, with types as in the service's answers
    Jsonl,
    /// CSV, with a column `NAME@type` after each column NAME
    Csv,
}

/// A file as the command line names it.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    /// `None` for standard input or output.
    path: Option<PathBuf>,
    pub(crate) format: DataFormat,
    is_compressed: bool,
}

impl DataFile {
    /// Takes format and compression from the name: `.jsonl` or `.csv`, and `.zst` after it. `format` decides for other names.
    pub(crate) fn new(name: &str, format: Option<DataFormat>) -> Result<Self> {
        let (inner, is_compressed) = name.strip_suffix(".zst").map_or((name, false), |inner| (inner, true));
        let by_name = match inner.rsplit_once('.').map(|(_, extension)| extension) {
            Some("jsonl" | "ndjson") => Some(DataFormat::Jsonl),
            Some("csv") => Some(DataFormat::Csv),
            _ => None,
        };
        let path = (name != STANDARD).then(|| PathBuf::from(name));
        match format.or(by_name) {
            Some(format) => Ok(Self { path, format, is_compressed }),
            None => Err(Failure::misuse(format!(
                "the name {name:?} does not end in .jsonl or .csv (with .zst after it for compression): give --format"
            ))),
        }
    }

    /// Whether this is standard input or output.
    pub(crate) const fn is_standard(&self) -> bool {
        self.path.is_none()
    }

    /// Opens the file to read it.
    pub(crate) fn open(&self) -> Result<Box<dyn BufRead + Send>> {
        let Some(path) = &self.path else { return Ok(Box::new(BufReader::new(io::stdin()))) };
        let file = File::open(path)
            .map_err(|error| Failure::misuse(format!("{} cannot be read: {error}", path.display())))?;
        match self.is_compressed {
            false => Ok(Box::new(BufReader::with_capacity(1 << 18, file))),
            true => {
                let decoder = zstd::Decoder::new(file).map_err(|error| failed(path, &error))?;
                Ok(Box::new(BufReader::with_capacity(1 << 18, decoder)))
            }
        }
    }

    /// Creates the file. It has another name until [`DataWriter::finish`], so that an interrupted export never looks complete.
    pub(crate) fn create(&self) -> Result<DataWriter> {
        let Some(path) = &self.path else {
            return Ok(DataWriter { out: Out::Plain(Box::new(io::stdout())), path: None });
        };
        // A partial file of an earlier run is replaced: nothing records which rows it has.
        let partial = partial(path);
        let file = File::create(&partial).map_err(|error| failed(&partial, &error))?;
        let out = match self.is_compressed {
            false => Out::Plain(Box::new(BufWriter::with_capacity(1 << 18, file))),
            true => Out::Compressed(
                zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)
                    .map_err(|error| failed(&partial, &error))?,
            ),
        };
        Ok(DataWriter { out, path: Some(path.clone()) })
    }
}

fn partial(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(PARTIAL);
    name.into()
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written or read: {error}", path.display()))
}

/// A file that is being written.
pub(crate) struct DataWriter {
    out: Out,
    path: Option<PathBuf>,
}

enum Out {
    Plain(Box<dyn Write + Send>),
    Compressed(zstd::Encoder<'static, File>),
}

impl DataWriter {
    /// Writes the rest to disk and gives the file its name.
    pub(crate) fn finish(self) -> Result<()> {
        match self.out {
            Out::Plain(mut out) => out.flush()?,
            Out::Compressed(out) => out.finish()?.sync_all()?,
        }
        match self.path {
            // Last: a file under the final name is complete. Within one directory, a rename replaces an older file in one step.
            Some(path) => fs::rename(partial(&path), &path).map_err(|error| failed(&path, &error)),
            None => Ok(()),
        }
    }
}

impl Write for DataWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Plain(out) => out.write(bytes),
            Out::Compressed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Plain(out) => out.flush(),
            Out::Compressed(out) => out.flush(),
        }
    }
}
