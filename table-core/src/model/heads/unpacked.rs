/// A buffer for the packed properties of rows. Most writes are a few bytes. They are copied in blocks of a
/// fixed size, which is several times faster than copying exact lengths.
#[derive(Default)]
pub struct Unpacked {
    /// Bytes past the end are ignored.
    bytes: Vec<u8>,
    end: usize,
}

impl Unpacked {
    /// Reserves this many bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes + SLACK], end: 0 }
    }

    /// Returns the appended bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes
    }

    /// Removes all bytes and keeps the memory.
    pub const fn clear(&mut self) {
        self.end = 0;
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        if self.bytes.len() < end {
            self.grow(end);
        }
        self.bytes[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }

    /// Appends the first bytes of a block.
    #[inline(always)]
    pub(super) fn push_block<const N: usize>(&mut self, block: &[u8; N], length: usize) {
        let room = self.bytes.get_mut(self.end..).and_then(|room| room.first_chunk_mut());
        match room {
            Some(room) => {
                *room = *block;
                self.end += length;
            }
            None => self.push(&block[..length]),
        }
    }

    /// Appends the first bytes of a row; `None` if the row is shorter.
    #[inline(always)]
    pub(super) fn push_start<const N: usize>(&mut self, row: &[u8], length: usize) -> Option<()> {
        match row.first_chunk::<N>() {
            Some(block) if length <= N => self.push_block(block, length),
            _ => self.push(row.get(..length)?),
        }
        Some(())
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize((end + (1 << 10)).next_power_of_two(), 0);
    }
}

/// A block may be longer than the appended length by this many bytes.
const SLACK: usize = 32;

/// Does not show the values, which may be secret.
impl std::fmt::Debug for Unpacked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacked").field("len", &self.end).finish_non_exhaustive()
    }
}
