use std::collections::BTreeMap;

/// Changes of a file that are kept in memory.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// Changed ranges by their offset. They do not overlap.
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // A later write wins. The range leaves all earlier pieces first, so that pieces never overlap and their order does not
        // matter to readers.
        self.cut(at, at + bytes.len() as u64);
        self.pieces.insert(at, bytes.to_vec());
    }

    /// Removes all changes from `len` on.
    pub(super) fn truncate(&mut self, len: u64) {
        self.cut(len, u64::MAX);
    }

    /// Applies the changes to `out`, which was read at offset `at`.
    pub(super) fn show(&self, at: u64, out: &mut [u8]) {
        let end = at + out.len() as u64;
        for (start, piece) in self.touching(at, end) {
            let (from, to) = (at.max(start), end.min(start + piece.len() as u64));
            let source = &piece[(from - start) as usize..(to - start) as usize];
            out[(from - at) as usize..(to - at) as usize].copy_from_slice(source);
        }
    }

    pub(super) fn touches(&self, at: u64, len: usize) -> bool {
        self.touching(at, at + len as u64).next().is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pieces
            .iter()
            .map(|(at, piece)| (*at, piece.as_slice()))
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
    }

    fn touching(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &[u8])> {
        // Pieces do not overlap, so of the pieces that begin before `from` only the last can reach into the range.
        let before = self.pieces.range(..from).next_back();
        let before = before.filter(|(at, piece)| **at + piece.len() as u64 > from);
        before
            .into_iter()
            .chain(self.pieces.range(from..to))
            .map(|(at, piece)| (*at, piece.as_slice()))
    }

    /// Removes a range from the pieces.
    fn cut(&mut self, from: u64, to: u64) {
        let touched: Vec<_> = self.touching(from, to).map(|(at, _)| at).collect();
        for at in touched {
            let Some(mut piece) = self.pieces.remove(&at) else {
                continue;
            };
            if at + piece.len() as u64 > to {
                self.pieces.insert(to, piece[(to - at) as usize..].to_vec());
            }
            if at < from {
                piece.truncate((from - at) as usize);
                self.pieces.insert(at, piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_overlay_reads_like_a_file(
            changes in prop::collection::vec((0_usize..60, 0_usize..20, any::<bool>()), 1..40),
        ) {
            let (mut overlay, mut file) = (Overlay::default(), vec![0; 100]);
            for (n, (at, len, cuts)) in changes.into_iter().enumerate() {
                if cuts {
                    overlay.truncate(at as u64);
                    file[at..].fill(0);
                } else {
                    let bytes = vec![n as u8 + 1; len];
                    overlay.write(at as u64, &bytes);
                    file[at..at + len].copy_from_slice(&bytes);
                }
                for (from, to) in [(0, 100), (10, 30), (25, 26)] {
                    let mut shown = vec![0; to - from];
                    overlay.show(from as u64, &mut shown);
                    prop_assert_eq!(&shown, &file[from..to]);
                }
            }
        }
    }
}
