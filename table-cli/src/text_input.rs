//! Text of files: decompressed, and decoded to UTF-8. The first bytes say how, whatever the name ends in.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

/// The most bytes of a row, in every format. An entity has at most 1 MiB, which JSON can write with 6 bytes for each. Without a bound,
/// a small compressed file could fill the memory.
pub(crate) const MAX_ROW_BYTES: usize = 16 << 20;
/// The bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 18;

const GZIP_MARK: &[u8] = &[0x1f, 0x8b];
const ZSTD_MARK: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The byte order mark in UTF-8, which some programs write.
const UTF_8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

/// Text that is read from a file.
pub(crate) struct TextInput {
    pub(crate) text: Box<dyn BufRead + Send>,
    /// How the text was found, if its name does not say it.
    pub(crate) remarks: Vec<String>,
}

impl TextInput {
    /// Reads the first bytes, and finds compression and encoding. `named` is the compression that the name of the file says.
    pub(crate) fn new(
        file: impl Read + Send + 'static,
        named: Option<Compression>,
    ) -> io::Result<Self> {
        let mut remarks = Vec::new();
        let (start, bytes) = with_start(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))?;
        let (found, bytes): (_, Box<dyn BufRead + Send>) = if start.starts_with(GZIP_MARK) {
            (
                Some(Compression::Gzip),
                buffered(MultiGzDecoder::new(bytes)),
            )
        } else if start.starts_with(ZSTD_MARK) {
            (
                Some(Compression::Zstd),
                buffered(zstd::Decoder::with_buffer(bytes)?),
            )
        } else {
            (None, bytes)
        };
        if found != named {
            remarks.push(match found {
                Some(Compression::Gzip) => "the file is compressed with gzip".to_owned(),
                Some(Compression::Zstd) => "the file is compressed with Zstandard".to_owned(),
                None => "the file is not compressed, although its name says so".to_owned(),
            });
        }
        let (start, mut bytes) = if found.is_some() {
            with_start(bytes)?
        } else {
            (start, bytes)
        };
        // Without a mark, the zeros of the first two characters show the order of the bytes: all formats begin with ASCII, or
        // mostly do.
        let utf_16 = match *start {
            [0xff, 0xfe, ..] => Some((false, 2)),
            [0xfe, 0xff, ..] => Some((true, 2)),
            [a, 0, b, 0, ..] if a != 0 && b != 0 => Some((false, 0)),
            [0, a, 0, b, ..] if a != 0 && b != 0 => Some((true, 0)),
            _ => None,
        };
        if let Some((is_big_endian, mark)) = utf_16 {
            skip(&mut bytes, mark)?;
            remarks.push("the file is in UTF-16".to_owned());
            let decoded = Utf16 {
                bytes,
                is_big_endian,
                decoded: Vec::new(),
                at: 0,
            };
            return Ok(Self {
                text: buffered(decoded),
                remarks,
            });
        }
        if start.starts_with(UTF_8_MARK) {
            skip(&mut bytes, UTF_8_MARK.len() as u64)?;
        }
        Ok(Self {
            text: bytes,
            remarks,
        })
    }
}

fn skip(bytes: &mut dyn BufRead, count: u64) -> io::Result<()> {
    io::copy(&mut bytes.take(count), &mut io::sink()).map(drop)
}

fn buffered(bytes: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, bytes))
}

/// Returns the first four bytes of a reader, or all if there are fewer, and a reader that begins with them.
fn with_start(
    mut bytes: Box<dyn BufRead + Send>,
) -> io::Result<(Vec<u8>, Box<dyn BufRead + Send>)> {
    let buffer = bytes.fill_buf()?;
    if buffer.len() >= 4 || buffer.is_empty() {
        return Ok((buffer[..buffer.len().min(4)].to_vec(), bytes));
    }
    // A pipe may give a few bytes at a time.
    let mut start = Vec::new();
    (&mut bytes).take(4).read_to_end(&mut start)?;
    let again = io::Cursor::new(start.clone());
    Ok((start, buffered(again.chain(bytes))))
}

/// Decodes UTF-16.
struct Utf16 {
    bytes: Box<dyn BufRead + Send>,
    is_big_endian: bool,
    decoded: Vec<u8>,
    /// The place in `decoded` of the next byte.
    at: usize,
}

impl Utf16 {
    fn unit(&mut self) -> io::Result<Option<u16>> {
        let mut pair = [0; 2];
        if self.bytes.fill_buf()?.is_empty() {
            return Ok(None);
        }
        self.bytes.read_exact(&mut pair)?;
        Ok(Some(if self.is_big_endian {
            u16::from_be_bytes(pair)
        } else {
            u16::from_le_bytes(pair)
        }))
    }

    fn character(&mut self) -> io::Result<Option<char>> {
        let Some(first) = self.unit()? else {
            return Ok(None);
        };
        let is_high = (0xd800..0xdc00).contains(&first);
        let second = if is_high { self.unit()? } else { None };
        let mut decoded = char::decode_utf16([first].into_iter().chain(second));
        match decoded.next() {
            Some(Ok(character)) => Ok(Some(character)),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the text is not valid UTF-16",
            )),
        }
    }
}

impl Read for Utf16 {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.decoded.len() {
            self.decoded.clear();
            self.at = 0;
            while self.decoded.len() < 1 << 14 {
                let Some(character) = self.character()? else {
                    break;
                };
                self.decoded
                    .extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        let bytes = (self.decoded.len() - self.at).min(out.len());
        out[..bytes].copy_from_slice(&self.decoded[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

/// Reads a line without its end into `line`; `false` at the end of the text. An error if the line is longer than a row.
pub(crate) fn read_line(text: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let limit = MAX_ROW_BYTES as u64 + 1;
    if text.take(limit).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.len() > MAX_ROW_BYTES {
        return Err(too_long());
    }
    Ok(true)
}

/// The error of a row that no entity can be.
pub(crate) fn too_long() -> io::Error {
    let reason = format!(
        "a row has more than {} MiB, and an entity has at most 1 MiB",
        MAX_ROW_BYTES >> 20
    );
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Gives one byte at a time, as a slow pipe.
    struct Slow(io::Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let bytes = out.len().min(1);
            self.0.read(&mut out[..bytes])
        }
    }

    fn read(bytes: &[u8], named: Option<Compression>) -> io::Result<(String, usize)> {
        let mut all = Vec::new();
        for slow in [false, true] {
            let cursor = io::Cursor::new(bytes.to_vec());
            let input = if slow {
                TextInput::new(Slow(cursor), named)?
            } else {
                TextInput::new(cursor, named)?
            };
            let (mut text, mut input_text) = (String::new(), input.text);
            input_text.read_to_string(&mut text)?;
            all.push((text, input.remarks.len()));
        }
        assert_eq!(all[0], all[1]);
        Ok(all.remove(0))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_first_bytes_say_how_text_is_written() {
        let text = "a,ü,😀\n";
        let units = |to_bytes: fn(u16) -> [u8; 2]| {
            text.encode_utf16().flat_map(to_bytes).collect::<Vec<u8>>()
        };
        let little = units(u16::to_le_bytes);
        let marked = [&[0xff, 0xfe][..], &little].concat();
        let big = [&[0xfe, 0xff][..], &units(u16::to_be_bytes)].concat();
        for (bytes, remarks) in [
            (text.as_bytes().to_vec(), 0),
            ([UTF_8_MARK, text.as_bytes()].concat(), 0),
            (little, 1),
            (marked.clone(), 1),
            (big, 1),
            (gzip(text.as_bytes()), 1),
            (gzip(&marked), 2),
            (zstd::encode_all(text.as_bytes(), 0).unwrap(), 1),
        ] {
            assert_eq!(
                read(&bytes, None).unwrap(),
                (text.to_owned(), remarks),
                "{bytes:?}"
            );
        }
        assert_eq!(
            read(&gzip(b"a"), Some(Compression::Gzip)).unwrap(),
            ("a".to_owned(), 0)
        );
        assert_eq!(
            read(b"a", Some(Compression::Zstd)).unwrap(),
            ("a".to_owned(), 1)
        );
        assert_eq!(read(b"", None).unwrap(), (String::new(), 0));
    }

    #[test]
    fn text_that_ends_early_is_an_error() {
        let whole = gzip(b"abcdefgh");
        assert!(read(&whole[..whole.len() - 9], None).is_err());
        assert!(read(&[0xff, 0xfe, b'a'], None).is_err());
        assert!(read(&[0xff, 0xfe, 0x00, 0xd8], None).is_err());
    }
}
