//! The pages of a Parquet file: their headers, checksums and sizes.
//! <https://parquet.apache.org/docs/file-format/data-pages/>, and the encoding of headers:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};

use flate2::bufread::MultiGzDecoder;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use crate::failure::{Failure, Result};

/// The most bytes of the pages that are in memory at once, one of each column, when they are decompressed. Writers make pages of about
/// 1 MiB.
pub(super) const MAX_PAGES_BYTES: u64 = 512 << 20;
/// How deep a header may nest: its statistics are on level 2.
const MAX_DEPTH: u8 = 8;

/// The type of a page with the values of a dictionary.
const DICTIONARY: i32 = 2;

// Types of the compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// Reads every page of a row group, and refuses pages whose checksums do not fit, and pages that would need more than `limit` bytes when
/// they are decompressed. Damage would otherwise be wrong values.
pub(super) fn check_pages(
    file: &File,
    group: &RowGroupMetaData,
    columns: &[usize],
    limit: u64,
) -> Result<()> {
    let mut in_memory = 0;
    for &at in columns {
        let Some(column) = group.columns().get(at) else {
            continue;
        };
        let name = column.column_path().string();
        let largest = check_column(file, column).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Failure::Damaged(format!(
                "the column {name:?} of the Parquet file: {error}: nothing was imported"
            )),
            _ => Failure::failed(format!(
                "the column {name:?} of the Parquet file cannot be read: {error}"
            )),
        })?;
        in_memory += largest;
        if in_memory > limit {
            return Err(Failure::misuse(format!(
                "the pages of the Parquet file need more than {} MiB of memory at once: write it with smaller pages (1 MiB is usual)",
                limit >> 20
            )));
        }
    }
    Ok(())
}

/// Returns the size of the largest page of a column in memory.
fn check_column(file: &File, column: &ColumnChunkMetaData) -> io::Result<u64> {
    let start = column
        .dictionary_page_offset()
        .unwrap_or_else(|| column.data_page_offset());
    let (Ok(start), Ok(length)) = (
        u64::try_from(start),
        u64::try_from(column.compressed_size()),
    ) else {
        return Err(damaged("its place in the file is negative".to_owned()));
    };
    let mut shared = file;
    shared.seek(SeekFrom::Start(start))?;
    let mut bytes = BufReader::with_capacity(1 << 16, shared).take(length);
    let (mut largest, mut dictionary) = (0, 0);
    while bytes.limit() > 0 {
        let place = start + length - bytes.limit();
        let at_place = |reason: &str| damaged(format!("the page at byte {place} {reason}"));
        let header = Header::read(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                at_place("has no valid header")
            }
            _ => error,
        })?;
        let (Ok(compressed), Ok(size)) = (
            u64::try_from(header.compressed),
            u64::try_from(header.uncompressed),
        ) else {
            return Err(at_place("has a negative size"));
        };
        if compressed > bytes.limit() {
            return Err(at_place("is longer than its column"));
        }
        // The library trusts the header for the other ways of compression, and decompresses no more than that.
        let inflated =
            matches!(column.compression(), Compression::GZIP(_)) && header.is_compressed();
        let mut page = Checked {
            bytes: (&mut bytes).take(compressed),
            checksum: crc32fast::Hasher::new(),
        };
        if inflated {
            let offset = u64::try_from(header.levels).unwrap_or(u64::MAX);
            io::copy(&mut (&mut page).take(offset), &mut io::sink())?;
            let mut decoder = MultiGzDecoder::new(BufReader::new(&mut page)).take(size + 1);
            let inflated = io::copy(&mut decoder, &mut io::sink())
                .map_err(|_| at_place("cannot be decompressed"))?;
            if inflated.saturating_add(offset) > size {
                return Err(at_place("is larger than its header says"));
            }
        }
        io::copy(&mut page, &mut io::sink())?;
        if page.bytes.limit() > 0 {
            return Err(at_place("is cut"));
        }
        if header
            .checksum
            .is_some_and(|expected| expected.cast_unsigned() != page.checksum.finalize())
        {
            return Err(at_place("does not have its checksum"));
        }
        match header.kind {
            Some(DICTIONARY) => {
                let values = u64::try_from(header.dictionary_values).unwrap_or(u64::MAX);
                if values > size {
                    return Err(at_place("has more values than bytes"));
                }
                // The values are kept, each with a pointer. A text takes 4 bytes in the page at least.
                dictionary = size.saturating_mul(8);
            }
            _ => largest = largest.max(size),
        }
    }
    Ok(largest + dictionary)
}

/// Bytes with their checksum.
struct Checked<R> {
    bytes: io::Take<R>,
    checksum: crc32fast::Hasher,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(out)?;
        self.checksum.update(&out[..count]);
        Ok(count)
    }
}

fn damaged(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// The header of a page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    kind: Option<i32>,
    uncompressed: i32,
    compressed: i32,
    checksum: Option<i32>,
    /// The number of values of a dictionary.
    dictionary_values: i32,
    /// The bytes of levels before the compressed data, in the second version of data pages.
    levels: i32,
    is_uncompressed: bool,
}

impl Header {
    const fn is_compressed(&self) -> bool {
        !self.is_uncompressed
    }

    fn read(bytes: &mut impl BufRead) -> io::Result<Self> {
        let mut header = Self {
            uncompressed: -1,
            compressed: -1,
            ..Self::default()
        };
        each_field(bytes, &mut |bytes, field, of| {
            match (field, of) {
                (1, I32) => header.kind = Some(int(bytes)?),
                (2, I32) => header.uncompressed = int(bytes)?,
                (3, I32) => header.compressed = int(bytes)?,
                (4, I32) => header.checksum = Some(int(bytes)?),
                (7, STRUCT) => each_field(bytes, &mut |bytes, field, of| {
                    match (field, of) {
                        (1, I32) => header.dictionary_values = int(bytes)?,
                        _ => skip(bytes, of, 1)?,
                    }
                    Ok(())
                })?,
                (8, STRUCT) => each_field(bytes, &mut |bytes, field, of| {
                    match (field, of) {
                        (5 | 6, I32) => {
                            header.levels = header.levels.saturating_add(int(bytes)?.max(0));
                        }
                        (7, FALSE) => header.is_uncompressed = true,
                        _ => skip(bytes, of, 1)?,
                    }
                    Ok(())
                })?,
                _ => skip(bytes, of, 0)?,
            }
            Ok(())
        })?;
        Ok(header)
    }
}

type OnField<'a, R> = dyn FnMut(&mut R, i16, u8) -> io::Result<()> + 'a;

/// Reads a structure: `on_field` reads the value of each field, by its number and type.
fn each_field<R: BufRead>(bytes: &mut R, on_field: &mut OnField<'_, R>) -> io::Result<()> {
    let mut field = 0_i16;
    loop {
        let head = byte(bytes)?;
        let (delta, of) = (head >> 4, head & 15);
        if head == 0 {
            return Ok(());
        }
        field = match delta {
            0 => i16::try_from(int(bytes)?).map_err(|_| invalid())?,
            delta => field.checked_add(i16::from(delta)).ok_or_else(invalid)?,
        };
        on_field(bytes, field, of)?;
    }
}

/// Reads over a value.
fn skip<R: BufRead>(bytes: &mut R, of: u8, depth: u8) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(invalid());
    }
    match of {
        TRUE | FALSE => Ok(()),
        BYTE => byte(bytes).map(drop),
        I16 | I32 | I64 => varint(bytes).map(drop),
        DOUBLE => skip_bytes(bytes, 8),
        BINARY => {
            let length = varint(bytes)?;
            skip_bytes(bytes, length)
        }
        LIST | SET => {
            let head = byte(bytes)?;
            let count = if head >> 4 == 15 {
                varint(bytes)?
            } else {
                u64::from(head >> 4)
            };
            // Each element takes a byte at least, also a Boolean.
            let of = if matches!(head & 15, TRUE | FALSE) {
                BYTE
            } else {
                head & 15
            };
            (0..count).try_for_each(|_| skip(bytes, of, depth + 1))
        }
        STRUCT => each_field(bytes, &mut |bytes, _, of| skip(bytes, of, depth + 1)),
        _ => Err(invalid()),
    }
}

fn skip_bytes(bytes: &mut impl BufRead, count: u64) -> io::Result<()> {
    let skipped = io::copy(&mut bytes.take(count), &mut io::sink())?;
    if skipped == count {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn byte(bytes: &mut impl BufRead) -> io::Result<u8> {
    let mut one = [0];
    bytes.read_exact(&mut one)?;
    Ok(one[0])
}

fn varint(bytes: &mut impl BufRead) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes)?;
        value |= u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(invalid())
}

/// A signed number of 32 bits: zigzag.
fn int(bytes: &mut impl BufRead) -> io::Result<i32> {
    let value = u32::try_from(varint(bytes)?).map_err(|_| invalid())?;
    Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

fn invalid() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the header of a page is invalid",
    )
}

/// Writes the pages of a column with their checksums, which the library does not write.
pub(crate) struct ChecksummedPages<'a>(pub(crate) &'a mut Vec<u8>);

impl PageWriter for ChecksummedPages<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec, ParquetError> {
        let Self(out) = self;
        let offset = out.len();
        write_header(out, &page)?;
        let header = out.len() - offset;
        out.extend_from_slice(page.data());
        let mut spec = PageWriteSpec::new();
        spec.page_type = page.page_type();
        spec.uncompressed_size = page.uncompressed_size() + header;
        spec.compressed_size = page.compressed_size() + header;
        spec.num_values = page.num_values();
        spec.offset = offset as u64;
        spec.bytes_written = (header + page.data().len()) as u64;
        Ok(spec)
    }

    fn close(&mut self) -> Result<(), ParquetError> {
        Ok(())
    }
}

fn write_header(out: &mut Vec<u8>, page: &CompressedPage) -> Result<(), ParquetError> {
    let size = |size: usize| {
        i32::try_from(size)
            .map_err(|_| ParquetError::General("a page has more than 2 GiB".to_owned()))
    };
    let values = size(usize::try_from(page.num_values()).unwrap_or(usize::MAX))?;
    let kind = match page.page_type() {
        PageType::DATA_PAGE => 0,
        PageType::DICTIONARY_PAGE => DICTIONARY,
        other => {
            return Err(ParquetError::General(format!(
                "pages of the type {other:?} are not written"
            )));
        }
    };
    put_int(out, 1, kind);
    put_int(out, 1, size(page.uncompressed_size())?);
    put_int(out, 1, size(page.compressed_size())?);
    put_int(out, 1, crc32fast::hash(page.data()).cast_signed());
    match page.compressed_page() {
        Page::DataPage {
            encoding,
            def_level_encoding,
            rep_level_encoding,
            ..
        } => {
            out.push(1 << 4 | STRUCT);
            put_int(out, 1, values);
            for encoding in [encoding, def_level_encoding, rep_level_encoding] {
                put_int(out, 1, encoding_number(*encoding)?);
            }
        }
        Page::DictionaryPage {
            encoding,
            is_sorted,
            ..
        } => {
            out.push(3 << 4 | STRUCT);
            put_int(out, 1, values);
            put_int(out, 1, encoding_number(*encoding)?);
            out.push(1 << 4 | if *is_sorted { TRUE } else { FALSE });
        }
        Page::DataPageV2 { .. } => {
            return Err(ParquetError::General(
                "pages of the version 2 are not written".to_owned(),
            ));
        }
    }
    // The ends of both structures.
    out.extend_from_slice(&[0, 0]);
    Ok(())
}

fn encoding_number(encoding: Encoding) -> Result<i32, ParquetError> {
    Ok(match encoding {
        Encoding::PLAIN => 0,
        Encoding::PLAIN_DICTIONARY => 2,
        Encoding::RLE => 3,
        Encoding::DELTA_BINARY_PACKED => 5,
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 6,
        Encoding::DELTA_BYTE_ARRAY => 7,
        Encoding::RLE_DICTIONARY => 8,
        other => {
            return Err(ParquetError::General(format!(
                "the encoding {other:?} is not written"
            )));
        }
    })
}

/// Appends a field that is `delta` after the field before.
fn put_int(out: &mut Vec<u8>, delta: u8, value: i32) {
    out.push(delta << 4 | I32);
    let mut left = (value << 1 ^ value >> 31).cast_unsigned();
    while left > 0x7f {
        out.push(0x80 | (left & 0x7f) as u8);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_is_written() {
        for size in [0, 1, 200, 70_000] {
            let buf = vec![7_u8; size].into();
            let page = Page::DataPage {
                buf,
                num_values: 5,
                encoding: Encoding::RLE_DICTIONARY,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let mut out = Vec::new();
            let spec = ChecksummedPages(&mut out)
                .write_page(CompressedPage::new(page, 3 * size))
                .unwrap();
            assert_eq!(spec.bytes_written, out.len() as u64);
            let mut bytes = &out[..];
            let header = Header::read(&mut bytes).unwrap();
            let checksum = crc32fast::hash(bytes);
            assert_eq!(bytes.len(), size);
            let sizes = (header.uncompressed, header.compressed);
            assert_eq!(
                sizes,
                (
                    i32::try_from(3 * size).unwrap(),
                    i32::try_from(size).unwrap()
                )
            );
            assert_eq!(
                (header.kind, header.checksum),
                (Some(0), Some(checksum.cast_signed()))
            );
        }
    }

    #[test]
    fn a_header_of_every_kind_of_field_is_read() {
        // Fields 1 to 4, then 5 with a structure that has all kinds of values, then 8.
        let header = [
            0x15, 0, 0x15, 2, 0x15, 4, 0x15, 1, // four numbers: 0, 1, 2, -1
            0x1c, 0x15, 6, 0x18, 2, 9, 9, 0x11, 0x12, 0x13, 5, 0x17, 1, 2, 3, 4, 5, 6, 7,
            8, // number, text, Booleans, byte, Double
            0x19, 0x25, 2, 4, 0x19, 0x21, 1, 2, 0x1c, 0,
            0, // lists of numbers and Booleans, an empty structure, the end
            0x3c, 0x55, 8, 0x15, 2, 0x12, 0, 0,
        ];
        let read = Header::read(&mut &header[..]).unwrap();
        let expected = Header {
            kind: Some(0),
            uncompressed: 1,
            compressed: 2,
            checksum: Some(-1),
            levels: 5,
            is_uncompressed: true,
            ..Header::default()
        };
        assert_eq!(read, expected);
        let nested: Vec<u8> = [0x1c; 100].into();
        assert!(Header::read(&mut &nested[..]).is_err());
        assert!(Header::read(&mut &header[..9]).is_err());
        assert!(Header::read(&mut &[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..]).is_err());
    }
}
