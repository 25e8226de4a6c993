//! The CSV files of a data set.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::StringRecord;
use ruzstd::decoding::StreamingDecoder;
use sha2::{Digest, Sha256};

use crate::Result;
use crate::row::{Columns, Row};

/// The help text of an argument that names the directory of a data set.
pub const DATA_HELP: &str = "The data set: flights, weather, planes and airlines as .csv or .csv.zst [default: January 2013, bundled]";

/// Returns the given directory of a data set, or the directory of the bundled data.
pub fn directory(given: Option<&Path>) -> PathBuf {
    given.map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("data"),
        Path::to_owned,
    )
}

/// The files of a data set, decompressed in memory.
#[derive(Debug)]
pub struct DataSet {
    /// The flights.
    pub flights: DataFile,
    /// The hourly observations of the weather.
    pub weather: DataFile,
    /// The planes, as registered.
    pub planes: DataFile,
    /// The airlines.
    pub airlines: DataFile,
}

impl DataSet {
    /// Reads the files of a directory, each as `.csv` or `.csv.zst`.
    ///
    /// # Errors
    /// Fails if a file is missing or damaged.
    pub fn read(dir: &Path) -> Result<Self> {
        Ok(Self {
            flights: DataFile::read(dir, "flights.csv")?,
            weather: DataFile::read(dir, "weather.csv")?,
            planes: DataFile::read(dir, "planes.csv")?,
            airlines: DataFile::read(dir, "airlines.csv")?,
        })
    }

    /// Identifies the data set, independent of compression.
    pub fn fingerprint(&self) -> String {
        let files = [&self.flights, &self.weather, &self.planes, &self.airlines];
        let mut hash = Sha256::new();
        for file in files {
            // The number of bytes comes first, so that the hash tells where a file ends.
            hash.update(file.bytes.len().to_le_bytes());
            hash.update(&file.bytes);
        }
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// One CSV file with a header line.
#[derive(Debug)]
pub struct DataFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl DataFile {
    fn read(dir: &Path, name: &str) -> Result<Self> {
        let (plain, compressed) = (dir.join(name), dir.join(format!("{name}.zst")));
        let (path, bytes) = match fs::read(&plain) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                (compressed.clone(), decompress(&compressed))
            }
            read => (plain, read),
        };
        match bytes {
            Ok(bytes) => Ok(Self { path, bytes }),
            Err(e) => {
                Err(format!("cannot read {name} or {name}.zst in {}: {e}", dir.display()).into())
            }
        }
    }

    /// Returns the number of rows, by counting lines.
    pub fn row_count(&self) -> usize {
        self.bytes
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            .saturating_sub(1)
    }

    /// Iterates over the rows in order.
    ///
    /// # Errors
    /// Fails if the file has no headers. Damaged rows are errors of the iterator's items.
    pub fn rows(&self) -> Result<impl Iterator<Item = Result<Row>>> {
        Ok(self.raw_rows()?.map(|row| row.map(|(row, _)| row)))
    }

    /// Iterates over the rows with their bytes, including line ends.
    ///
    /// # Errors
    /// Fails like [`rows`](Self::rows).
    pub fn raw_rows(&self) -> Result<impl Iterator<Item = Result<(Row, &[u8])>>> {
        let mut reader = csv::Reader::from_reader(self.bytes.as_slice());
        let columns = Arc::new(Columns {
            path: self.path.clone(),
            names: reader.headers()?.clone(),
        });
        Ok(std::iter::from_fn(move || {
            let (start, mut record) = (byte_position(&reader), StringRecord::new());
            let read = reader.read_record(&mut record);
            if matches!(read, Ok(false)) {
                return None;
            }
            let raw = self
                .bytes
                .get(start..byte_position(&reader))
                .unwrap_or_default();
            Some(Row::new(&columns, read.map(|_| record)).map(|row| (row, raw)))
        }))
    }
}

/// Returns the byte position of a reader.
fn byte_position<R: Read>(reader: &csv::Reader<R>) -> usize {
    reader.position().byte() as usize
}

/// Reads a file that is compressed by Zstandard.
///
/// # Errors
/// Fails if the file cannot be read or is damaged.
pub fn decompress(path: &Path) -> io::Result<Vec<u8>> {
    let file = io::BufReader::new(fs::File::open(path)?);
    let mut bytes = Vec::new();
    StreamingDecoder::new(file)
        .map_err(io::Error::other)?
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
