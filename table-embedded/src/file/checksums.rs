//! The expected checksums of the file's pages, learned from pages that refer to them and from writes.

use xxhash_rust::xxh3::xxh3_64;

use super::page::{self, Header, Kind, PAGE, PageRef};

/// Number of the file's pages that one part of the table covers.
const PART_PAGES: usize = 1 << 10;
/// The low bits of an entry are a tag; the bits above are a part of the checksum.
const TAG_BITS: u32 = 16;
// An entry from its low bits: 5 bits of order plus 1 (so 0 means unknown), 11 bits of kind, 48 bits of checksum. The table costs 8 bytes per
// 4 KiB this way; with 48 bits, one of 2^48 damaged pages would pass.
const ORDER_BITS: u32 = 5;
const ORDER_MASK: u64 = (1 << ORDER_BITS) - 1;
/// A tag instead of a page kind: this process wrote the page, and the checksum covers all of its bytes.
const WRITTEN: u64 = 0x7FF;

/// Counts the pages that any store of this process read without an expected checksum.
#[cfg(test)]
pub(crate) static UNKNOWN: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Maps each page to 8 bytes: its expected kind and checksum. Unknown pages have no entry.
///
/// The engine reads a page only because another page refers to it, and it read or wrote that page before. So
/// once the header was [learned](Self::learn), every page that is read has an entry.
#[derive(Debug, Default)]
pub(super) struct PageChecksums {
    parts: Vec<Option<Box<[u64; PART_PAGES]>>>,
    kinds: Vec<Kind>,
    pub(super) header: Option<Header>,
}

/// The expectation for a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Unknown,
    /// The page's kind and some bits of its checksum.
    Page(Kind, u64),
    Written(u64),
}

impl PageChecksums {
    /// Learns from a reference what a page must be, unless the page was written since, because the write is
    /// newer.
    pub(super) fn learn(&mut self, page: &PageRef) {
        // One kind for each pair of key and value width, so the number of kinds stays small and never reaches `WRITTEN`.
        let known = self.kinds.iter().position(|kind| *kind == page.kind);
        let kind = known.unwrap_or_else(|| {
            self.kinds.push(page.kind);
            self.kinds.len() - 1
        }) as u64;
        let entry = self.entry(page.at);
        if *entry == 0 || (*entry >> ORDER_BITS) & WRITTEN != WRITTEN {
            *entry = bits(page.sum as u64) | (kind << ORDER_BITS) | (u64::from(page.order) + 1);
        }
    }

    pub(super) fn written(&mut self, at: u64, bytes: &[u8]) {
        let sum = xxh3_64(bytes);
        *self.entry(at) = bits(sum) | (WRITTEN << ORDER_BITS) | (order(bytes.len()) + 1);
    }

    pub(super) fn expected(&self, at: u64, len: usize) -> Expected {
        let (part, within) = place(at);
        let entry = self
            .parts
            .get(part)
            .and_then(Option::as_ref)
            .map_or(0, |part| part[within]);
        // Another order: the entry belongs to an earlier page at this offset, which was freed since. It says nothing about this page.
        if entry == 0 || entry & ORDER_MASK != order(len) + 1 {
            #[cfg(test)]
            UNKNOWN.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            return Expected::Unknown;
        }
        match ((entry >> ORDER_BITS) & WRITTEN, entry >> TAG_BITS) {
            (WRITTEN, sum) => Expected::Written(sum),
            (kind, sum) => self
                .kinds
                .get(kind as usize)
                .map_or(Expected::Unknown, |kind| Expected::Page(*kind, sum)),
        }
    }

    fn entry(&mut self, at: u64) -> &mut u64 {
        let (part, within) = place(at);
        if self.parts.len() <= part {
            self.parts.resize_with(part + 1, || None);
        }
        &mut self.parts[part].get_or_insert_with(|| Box::new([0; PART_PAGES]))[within]
    }
}

impl Expected {
    /// Whether the bytes match the expectation.
    pub(super) fn is_met(self, bytes: &[u8]) -> bool {
        match self {
            Self::Unknown => true,
            Self::Page(kind, sum) => {
                page::sum(bytes, kind).is_some_and(|found| found as u64 >> TAG_BITS == sum)
            }
            Self::Written(sum) => xxh3_64(bytes) >> TAG_BITS == sum,
        }
    }
}

/// The part of a checksum that an entry keeps.
const fn bits(sum: u64) -> u64 {
    sum >> TAG_BITS << TAG_BITS
}

/// The order of a page of this length: a page of order n has 2^n times 4 KiB.
fn order(len: usize) -> u64 {
    (len as u64 / PAGE).max(1).ilog2().into()
}

/// The part of the table, and the entry in it, of the page at an offset.
fn place(at: u64) -> (usize, usize) {
    let page = (at / PAGE) as usize;
    (page / PART_PAGES, page % PART_PAGES)
}
