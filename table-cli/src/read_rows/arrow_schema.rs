//! Finds durations in the schema of Arrow, which pyarrow, pandas and Polars keep in a Parquet file. In Parquet a duration is a whole number, and
//! the schema alone says that it is more, and in which unit. <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The key of the schema in the metadata of a Parquet file.
pub(super) const ARROW_SCHEMA: &str = "ARROW:schema";
/// The mark before the length of a message. Messages of old versions have the length alone.
const MESSAGE_MARK: &[u8] = &[0xff; 4];
/// `MessageHeader.Schema` of <https://github.com/apache/arrow/blob/main/format/Message.fbs>.
const SCHEMA: u8 = 1;
/// `Type.Duration` of <https://github.com/apache/arrow/blob/main/format/Schema.fbs>.
const DURATION: u8 = 18;

/// The names of the columns with durations. A schema that cannot be read has none: the schema of Parquet decides then.
pub(super) fn durations(base64: &str) -> Vec<String> {
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    let message = match bytes.strip_prefix(MESSAGE_MARK) {
        Some(rest) => rest,
        None => &bytes[..],
    };
    let flat = Flat(message.get(4..).unwrap_or_default());
    flat.durations().unwrap_or_default()
}

/// A buffer of FlatBuffers: <https://flatbuffers.dev/internals/>. Every read is checked, because any program can have written the bytes.
#[derive(Clone, Copy)]
struct Flat<'a>(&'a [u8]);

impl Flat<'_> {
    fn durations(self) -> Option<Vec<String>> {
        let message = self.pointer(0)?;
        let kind = self.field(message, 1)?;
        if *self.0.get(kind)? != SCHEMA {
            return None;
        }
        let schema = self.pointer(self.field(message, 2)?)?;
        let fields = self.pointer(self.field(schema, 1)?)?;
        let mut names = Vec::new();
        for at in 0..self.number(fields)? {
            let place = fields.checked_add(4)?.checked_add(at.checked_mul(4)?)?;
            let field = self.pointer(place)?;
            let kind = self.field(field, 2).and_then(|kind| self.0.get(kind));
            if kind == Some(&DURATION) {
                names.push(self.text(self.pointer(self.field(field, 0)?)?)?);
            }
        }
        Some(names)
    }

    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    /// An unsigned number of 32 bits.
    fn number(self, at: usize) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array(at)?)).ok()
    }

    /// The place that the number at a place points to.
    fn pointer(self, at: usize) -> Option<usize> {
        at.checked_add(self.number(at)?)
    }

    /// The place of a field of a table; `None` if the table leaves it out.
    fn field(self, table: usize, number: usize) -> Option<usize> {
        let back = i64::from(i32::from_le_bytes(self.array(table)?));
        let layout = usize::try_from(i64::try_from(table).ok()? - back).ok()?;
        let short = |at: usize| Some(usize::from(u16::from_le_bytes(self.array(at)?)));
        let slot = 4 + 2 * number;
        if slot + 2 > short(layout)? {
            return None;
        }
        match short(layout.checked_add(slot)?)? {
            0 => None,
            offset => table.checked_add(offset),
        }
    }

    fn text(self, at: usize) -> Option<String> {
        let from = at.checked_add(4)?;
        let bytes = self.0.get(from..from.checked_add(self.number(at)?)?)?;
        String::from_utf8(bytes.to_vec()).ok()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The schema that pyarrow 26 writes for the columns PartitionKey, RowKey, Lasts (`duration[ms]`) and N (`int64`).
    pub(in crate::read_rows) const WITH_DURATION: &str = "/////wgBAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAQAAACkAAAAaAAAADwAAAAEAAAAfP///wAAAQIQAAAAHAAAAAQAAAAAAAAAAQAAAE4AAAAIAAwACAAHAAgAAAAAAAABQAAAALD///8AAAESEAAAABgAAAAEAAAAAAAAAAUAAABMYXN0cwAAAJj////Y////AAABBRAAAAAYAAAABAAAAAAAAAAGAAAAUm93S2V5AADA////EAAUAAgABgAHAAwAAAAQABAAAAAAAAEFEAAAACQAAAAEAAAAAAAAAAwAAABQYXJ0aXRpb25LZXkAAAAABAAEAAQAAAA=";

    #[test]
    fn durations_are_found_in_the_schema_of_pyarrow() {
        assert_eq!(durations(WITH_DURATION), ["Lasts"]);
    }

    #[test]
    fn a_schema_that_cannot_be_read_has_no_durations() {
        let whole = STANDARD.decode(WITH_DURATION).unwrap();
        for length in 0..whole.len() {
            durations(&STANDARD.encode(&whole[..length]));
            let mut changed = whole.clone();
            changed[length] ^= 0xff;
            durations(&STANDARD.encode(&changed));
        }
        assert!(durations("no base64").is_empty());
    }
}
