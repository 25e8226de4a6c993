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

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Appends the first bytes of a block.
    #[inline]
    pub(super) fn push_block<const N: usize>(&mut self, block: &[u8; N], length: usize) {
        self.room(N).copy_from_slice(block);
        self.end += length.min(N);
    }

    /// Appends the first bytes of a row; `None` if it has not so many.
    #[inline]
    pub(super) fn push_start<const N: usize>(&mut self, row: &[u8], length: usize) -> Option<()> {
        match row.first_chunk::<N>() {
            Some(block) if length <= N => self.push_block(block, length),
            _ => self.push(row.get(..length)?),
        }
        Some(())
    }

    #[inline]
    fn room(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < length {
            self.grow(length);
        }
        &mut self.bytes[self.end..self.end + length]
    }

    #[cold]
    fn grow(&mut self, length: usize) {
        self.bytes.resize((self.end + length).next_power_of_two().max(1 << 10), 0);
    }
}
