/// A buffer for one row after another. What is written into it are mostly a few bytes, which are copied
/// in blocks of one size: that is several times quicker than copying as many as there are.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    /// What is behind the end is of no account.
    bytes: Vec<u8>,
    end: usize,
}

impl Unpacked {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    pub(crate) const fn clear(&mut self) {
        self.end = 0;
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        if self.bytes.len() < end {
            self.grow(end);
        }
        self.bytes[self.end..end].copy_from_slice(bytes);
        self.end = end;
    }

    /// Appends the first bytes of a block.
    #[inline(always)]
    pub(crate) fn push_block<const N: usize>(&mut self, block: &[u8; N], length: usize) {
        let room = self.bytes.get_mut(self.end..).and_then(|room| room.first_chunk_mut());
        match room {
            Some(room) => {
                *room = *block;
                self.end += length;
            }
            None => self.push(&block[..length]),
        }
    }

    /// Appends the first bytes of a row; `None` if it has not so many.
    #[inline(always)]
    pub(super) fn push_start<const N: usize>(&mut self, row: &[u8], length: usize) -> Option<()> {
        match row.first_chunk::<N>() {
            Some(block) if length <= N => self.push_block(block, length),
            _ => self.push(row.get(..length)?),
        }
        Some(())
    }

    /// Room for so many bytes and some more: blocks are longer than what is wanted of them.
    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize((end + (1 << 10)).next_power_of_two(), 0);
    }
}
