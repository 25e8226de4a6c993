//! Files of entities: their formats by name, compression, and standard input and output.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;

use crate::azcopy::{Payload, data_files};
use crate::failure::{Failure, Result};
use crate::output::DataOutput;
use crate::progress::FilePosition;
use crate::target_file::TargetFile;
use crate::text_input::{Compression, TextInput};

/// The text that stands for standard input or output.
const STANDARD_STREAM: &str = "-";
/// The end of the name of a manifest of AzCopy 7.
const MANIFEST_ENDING: &str = ".manifest";
/// Why a file of Parquet is refused by a program that was built without it.
#[cfg_attr(feature = "parquet", expect(dead_code, reason = "for other builds"))]
pub(crate) const NO_PARQUET: &str =
    "this program was built without Parquet: build it with the feature `parquet`";

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataFormat {
    /// One line of JSON for each entity, with types as in the service's answers
    Jsonl,
    /// CSV, with a column `NAME@type` after each column NAME
    Csv,
    /// Apache Parquet, with a column for each property
    Parquet,
    /// For import: an array of entities, or an answer of the service
    Json,
}

/// A file as the command line names it.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    /// `None` for standard input or output.
    path: Option<PathBuf>,
    pub(crate) format: DataFormat,
    compression: Option<Compression>,
    /// The bytes that were read.
    read: Arc<AtomicU64>,
}

impl DataFile {
    /// Takes format and compression from the name: `.jsonl` (or `.ndjson`), `.csv`, `.parquet` or `.json`, and `.zst` or `.gz` after it. A
    /// given `format` goes before the name.
    pub(crate) fn new(name: &str, format: Option<DataFormat>) -> Result<Self> {
        let (inner, compression) = match (name.strip_suffix(".zst"), name.strip_suffix(".gz")) {
            (Some(inner), _) => (inner, Some(Compression::Zstd)),
            (None, Some(inner)) => (inner, Some(Compression::Gzip)),
            (None, None) => (name, None),
        };
        let by_name = match inner.rsplit_once('.').map(|(_, extension)| extension) {
            Some("jsonl" | "ndjson") => Some(DataFormat::Jsonl),
            Some("csv" | "tsv") => Some(DataFormat::Csv),
            Some("parquet") => Some(DataFormat::Parquet),
            Some("json") => Some(DataFormat::Json),
            _ => None,
        };
        let path = (name != STANDARD_STREAM).then(|| PathBuf::from(name));
        match format.or(by_name) {
            Some(DataFormat::Parquet) if compression.is_some() => Err(Failure::misuse(format!(
                "the name {name:?} ends in .zst or .gz, and a Parquet file is compressed inside, with Zstandard: give a name that ends in .parquet"
            ))),
            Some(format) => Ok(Self {
                path,
                format,
                compression,
                read: Arc::default(),
            }),
            None => Err(Failure::misuse(format!(
                "the name {name:?} does not end in .jsonl, .csv, .parquet or .json (the text formats with .zst after it for compression): give --format"
            ))),
        }
    }

    /// Names the file of an export.
    pub(crate) fn to_write(name: &str, format: Option<DataFormat>) -> Result<Self> {
        let file = Self::new(name, format)?;
        match file.format {
            DataFormat::Json => Err(Failure::misuse(
                "an export writes a line for each entity: give a name that ends in .jsonl",
            )),
            _ if file.compression == Some(Compression::Gzip) => Err(Failure::misuse(format!(
                "an export compresses with Zstandard: {name:?} needs the ending .zst, or use --to - with gzip"
            ))),
            _ if name.ends_with(".tsv") => Err(Failure::misuse(
                "an export separates by commas: give a name that ends in .csv",
            )),
            #[cfg(not(feature = "parquet"))]
            DataFormat::Parquet => Err(Failure::misuse(NO_PARQUET)),
            _ => Ok(file),
        }
    }

    /// Names the files of an import: one, or the data files of a manifest of AzCopy 7.
    pub(crate) fn to_read(name: &str, format: Option<DataFormat>) -> Result<Vec<Self>> {
        // A given format decides: then the file is one of data, whatever its name ends in.
        if format.is_some() || !name.ends_with(MANIFEST_ENDING) {
            return Ok(vec![Self::new(name, format)?]);
        }
        let (payload, paths) = data_files(Path::new(name))?;
        let format = match payload {
            Payload::Json => DataFormat::Json,
            Payload::Csv => DataFormat::Csv,
        };
        let read = Arc::<AtomicU64>::default();
        let file = |path| Self {
            path: Some(path),
            format,
            compression: None,
            read: Arc::clone(&read),
        };
        Ok(paths.into_iter().map(file).collect())
    }

    /// Whether this is standard input or output.
    pub(crate) const fn is_standard(&self) -> bool {
        self.path.is_none()
    }

    /// Opens the file as bytes in any order; `None` for standard input.
    pub(crate) fn open_file(&self) -> Result<Option<File>> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let file = File::open(path);
        file.map(Some)
            .map_err(|error| Failure::misuse(format!("{self} cannot be read: {error}")))
    }

    /// The position in files of text, which are read one after another; `None` for standard input, and for Parquet, which is read in any
    /// order.
    pub(crate) fn position(files: &[Self]) -> Option<FilePosition> {
        let is_text = |file: &&Self| file.format != DataFormat::Parquet;
        let size = |file: &Self| {
            fs::metadata(file.path.as_ref()?)
                .ok()
                .map(|metadata| metadata.len())
        };
        let sizes: Option<Vec<u64>> = files.iter().filter(is_text).map(size).collect();
        let first = files.first().filter(is_text)?;
        Some(FilePosition::new(
            Arc::clone(&first.read),
            sizes?.iter().sum(),
        ))
    }

    /// Opens the file to read its text.
    pub(crate) fn open(&self) -> Result<TextInput> {
        let opened = match self.open_file()? {
            None => TextInput::new(io::stdin(), None),
            Some(file) => TextInput::new(
                Counted {
                    file,
                    read: Arc::clone(&self.read),
                },
                self.compression,
            ),
        };
        opened.map_err(|error| Failure::of_input(format!("{self} cannot be read: {error}"), &error))
    }

    /// Creates the file; see [`TargetFile::create`].
    pub(crate) fn create(&self) -> Result<DataWriter> {
        let Some(path) = &self.path else {
            let out = DataOutput::new();
            if self.format == DataFormat::Parquet && matches!(out, DataOutput::Terminal(_)) {
                return Err(Failure::misuse(
                    "a Parquet file is no text for a terminal: give --to a name",
                ));
            }
            return Ok(DataWriter(Out::Standard(BufWriter::new(out))));
        };
        let file = TargetFile::create(path)?;
        Ok(DataWriter(match self.compression.is_some() {
            false => Out::Plain(BufWriter::with_capacity(1 << 18, file)),
            true => {
                let mut compressed = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                // A reader finds a changed bit, which would be another value.
                compressed.include_checksum(true)?;
                Out::Compressed(compressed)
            }
        }))
    }
}

/// Counts the bytes that are read from a file.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

impl fmt::Display for DataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}", path.display()),
            None => f.write_str("standard input"),
        }
    }
}

/// A file that is being written.
pub(crate) struct DataWriter(Out);

enum Out {
    /// Buffered: standard output alone would be written line by line.
    Standard(BufWriter<DataOutput>),
    Plain(BufWriter<TargetFile>),
    Compressed(zstd::Encoder<'static, TargetFile>),
}

impl DataWriter {
    /// Writes the buffered bytes to disk, and gives the file its name.
    pub(crate) fn finish(self) -> Result<()> {
        let file = match self.0 {
            Out::Standard(mut out) => return Ok(out.flush()?),
            Out::Plain(out) => out.into_inner().map_err(io::IntoInnerError::into_error)?,
            Out::Compressed(out) => out.finish()?,
        };
        file.finish()
    }
}

impl Write for DataWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Out::Standard(out) => out.write(bytes),
            Out::Plain(out) => out.write(bytes),
            Out::Compressed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Out::Standard(out) => out.flush(),
            Out::Plain(out) => out.flush(),
            Out::Compressed(out) => out.flush(),
        }
    }
}
