//! The CSV files of a data set.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::StringRecord;
use ruzstd::decoding::StreamingDecoder;

use crate::Result;
use crate::row::{Columns, Row};

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
        let hash = files.into_iter().fold(FNV_OFFSET, |hash, file| fnv(fnv(hash, &file.bytes), &[0]));
        format!("{hash:016x}")
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
            Err(e) if e.kind() == io::ErrorKind::NotFound => (compressed.clone(), decompress(&compressed)),
            read => (plain, read),
        };
        match bytes {
            Ok(bytes) => Ok(Self { path, bytes }),
            Err(e) => Err(format!("cannot read {name} or {name}.zst in {}: {e}", dir.display()).into()),
        }
    }

    /// Returns the number of rows, by counting lines.
    pub fn row_count(&self) -> usize {
        self.bytes.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1)
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
        let columns = Arc::new(Columns { path: self.path.clone(), names: reader.headers()?.clone() });
        Ok(std::iter::from_fn(move || {
            let (start, mut record) = (at(&reader), StringRecord::new());
            let read = reader.read_record(&mut record);
            if matches!(read, Ok(false)) {
                return None;
            }
            let raw = self.bytes.get(start..at(&reader)).unwrap_or_default();
            Some(Row::new(&columns, read.map(|_| record)).map(|row| (row, raw)))
        }))
    }
}

/// Returns the byte position of a reader.
fn at<R: Read>(reader: &csv::Reader<R>) -> usize {
    reader.position().byte() as usize
}

/// Reads a file that is compressed by Zstandard.
///
/// # Errors
/// Fails if the file cannot be read or is damaged.
pub fn decompress(path: &Path) -> io::Result<Vec<u8>> {
    let file = io::BufReader::new(fs::File::open(path)?);
    let mut bytes = Vec::new();
    StreamingDecoder::new(file).map_err(io::Error::other)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: distinguishes files, but is not secure. <http://www.isthe.com/chongo/tech/comp/fnv/>
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
