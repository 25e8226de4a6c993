//! Parses the engine's pages as far as checksums require it. The format is redb's file format 3, described in
//! `docs/design.md` of its sources.
//!
//! Every page but the header is a node of a tree, and each node holds the checksums of its children. The
//! header holds the checksums of two roots: the trees of table definitions (user tables, engine tables).
//! Their leaves hold the root checksums of the tables.

use xxhash_rust::xxh3::xxh3_128;

/// Bytes of the smallest page and of the header.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of the header that are used.
const HEADER: usize = 320;
/// The first bytes of every redb file.
pub(super) const MAGIC: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";
// Offsets in the header: <https://github.com/cberner/redb/blob/master/docs/design.md>. redb calls the byte of flags the god byte: bit 0
// selects the current one of two commit slots, bit 1 says that the file was not closed. A commit fills the other slot and
// flips bit 0, so the slot of the commit before it stays whole until the next commit.
const GOD_BYTE: usize = 9;
const PAGE_SIZE_AT: usize = 12;
const REGION_PAGES_AT: usize = 20;
const SLOTS_AT: usize = 64;
const SLOT: usize = 128;
const MAX_ORDER: u32 = 20;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;

/// The key and value widths of a tree. Keys or values of fixed width have no stored end offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    key: Option<u32>,
    value: Option<u32>,
    /// Whether the values are table definitions.
    definitions: bool,
}

impl Kind {
    const DEFINITIONS: Self = Self {
        key: None,
        value: None,
        definitions: true,
    };

    /// Whether the tree's leaves refer to roots of tables.
    pub(crate) fn has_definitions(self) -> bool {
        self.definitions
    }
}

/// A reference to a page, as its parent stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRef {
    pub(crate) at: u64,
    pub(crate) order: u8,
    pub(crate) sum: u128,
    pub(crate) kind: Kind,
}

impl PageRef {
    pub(crate) fn len(&self) -> usize {
        (PAGE as usize) << self.order
    }
}

/// The header's contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    region_bytes: u64,
    /// The roots of the last commit: user tables, engine tables.
    pub(crate) roots: [Option<PageRef>; 2],
    /// Whether the file was not closed cleanly.
    pub(crate) unclean: bool,
}

impl Header {
    /// Returns `None` if the bytes are not a header or its current half is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let god = bytes[GOD_BYTE];
        let whole = bytes.starts_with(MAGIC) && u64::from(u32_at(bytes, PAGE_SIZE_AT)?) == PAGE;
        let region_bytes = u64::from(u32_at(bytes, REGION_PAGES_AT)?) * PAGE;
        // The last 16 bytes of a slot are its checksum. A slot that was written in part is no header here; the engine's recovery
        // then uses the other slot.
        let slot = &bytes[SLOTS_AT + SLOT * usize::from(god & 1)..][..SLOT];
        let (slot, sum) = slot.split_last_chunk::<16>()?;
        if !whole || xxh3_128(slot).to_le_bytes() != *sum {
            return None;
        }
        let mut header = Self {
            region_bytes,
            roots: [None; 2],
            unclean: god & 2 != 0,
        };
        // For each root: a flag whether it exists at 1 + n, then page number, checksum and length from `at` on.
        for (n, at) in [8, 40].into_iter().enumerate() {
            if slot[1 + n] != 0 {
                header.roots[n] = Some(header.reference(slot, at, at + 8, Kind::DEFINITIONS)?);
            }
        }
        Some(header)
    }

    /// Reads a reference: the page number at one offset, its checksum at another.
    fn reference(
        &self,
        bytes: &[u8],
        number_at: usize,
        sum_at: usize,
        kind: Kind,
    ) -> Option<PageRef> {
        let number = u64::from_le_bytes(chunk(bytes, number_at)?);
        let sum = u128::from_le_bytes(chunk(bytes, sum_at)?);
        let order = (number >> 59) as u32;
        if order > MAX_ORDER {
            return None;
        }
        // A page number has 5 bits of order, 19 reserved bits, 20 bits of region and 20 bits of index. A page of order n has 2^n
        // times 4 KiB and the index counts pages of that size, so a higher order needs fewer bits.
        let (index, region) = (number & (0xF_FFFF >> order), (number >> 20) & 0xF_FFFF);
        let at = PAGE + region * self.region_bytes + index * (PAGE << order);
        Some(PageRef {
            at,
            order: order as u8,
            sum,
            kind,
        })
    }

    /// Returns the pages that a page refers to: its children and the roots in its definitions. `None` if the
    /// page contradicts itself.
    pub(crate) fn references(&self, page: &[u8], kind: Kind) -> Option<Vec<PageRef>> {
        if page.first() == Some(&BRANCH) {
            return self.children(page, kind);
        }
        if !kind.definitions {
            return Some(Vec::new());
        }
        Some(
            self.definitions(page)?
                .into_iter()
                .filter_map(|(_, root)| root)
                .collect(),
        )
    }

    fn children(&self, page: &[u8], kind: Kind) -> Option<Vec<PageRef>> {
        let children = count(page)? + 1;
        // A branch has 8 bytes of head, then the checksums of all children, then their page numbers, then the keys.
        let child = |n: usize| self.reference(page, 8 + 16 * children + 8 * n, 8 + 16 * n, kind);
        (0..children).map(child).collect()
    }

    /// Returns the children of a branch, each with the upper bound of its keys; the last child has its
    /// parent's bound. `None` if the page is not a branch.
    pub(crate) fn children_with_keys(
        &self,
        page: &[u8],
        kind: Kind,
    ) -> Option<Vec<(PageRef, Option<Vec<u8>>)>> {
        if !is_branch(page) {
            return None;
        }
        let keys = count(page)?;
        let children = self.children(page, kind)?.into_iter().enumerate();
        let with_key = |(n, child): (usize, PageRef)| match n < keys {
            true => Some((child, Some(branch_key(page, kind, n)?.to_vec()))),
            false => Some((child, None)),
        };
        children.map(with_key).collect()
    }

    /// Returns the table names and roots in a leaf of definitions.
    pub(crate) fn definitions(&self, page: &[u8]) -> Option<Vec<(Vec<u8>, Option<PageRef>)>> {
        let pairs = pairs(page, Kind::DEFINITIONS)?.into_iter();
        pairs
            .map(|(name, definition)| Some((name.to_vec(), self.root_of(definition)?)))
            .collect()
    }

    /// Returns the root in a table definition: `Some(None)` if the table has no pages, `None` if the definition is malformed.
    fn root_of(&self, definition: &[u8]) -> Option<Option<PageRef>> {
        let width = |at: usize| match *definition.get(at)? {
            0 => Some(None),
            _ => Some(Some(u32_at(definition, at + 1)?)),
        };
        // A definition has its type (1 byte), the number of rows (8), a flag whether there is a root (1), the root's page number (8),
        // checksum (16) and length (8), and the widths of key and value (a flag and 4 bytes each).
        let kind = Kind {
            key: width(42)?,
            value: width(47)?,
            definitions: false,
        };
        if *definition.get(9)? == 0 {
            return Some(None);
        }
        self.reference(definition, 10, 18, kind).map(Some)
    }
}

/// Whether a page is a branch.
pub(crate) fn is_branch(page: &[u8]) -> bool {
    page.first() == Some(&BRANCH)
}

/// Returns the checksum of the used bytes of a page; `None` if the page contradicts itself.
pub(crate) fn sum(page: &[u8], kind: Kind) -> Option<u128> {
    // The engine's checksum ends with the last key or value. The bytes behind it may be left from an earlier use of the page
    // and must not count. A node without pairs or keys does not occur, so `checked_sub` refuses it.
    let end = match *page.first()? {
        LEAF => {
            let leaf = Leaf::of(page, kind)?;
            leaf.value_end(leaf.pairs.checked_sub(1)?)?
        }
        BRANCH => branch_key_end(page, kind, count(page)?.checked_sub(1)?)?,
        _ => return None,
    };
    page.get(..end).map(xxh3_128)
}

/// The offset after key n of a branch.
fn branch_key_end(page: &[u8], kind: Kind, n: usize) -> Option<usize> {
    let keys = count(page)?;
    let ends = 8 + 24 * (keys + 1);
    match kind.key {
        Some(width) => Some(ends + width as usize * (n + 1)),
        None => Some(u32_at(page, ends + 4 * n)? as usize),
    }
}

fn branch_key(page: &[u8], kind: Kind, n: usize) -> Option<&[u8]> {
    let keys = count(page)?;
    // 24 bytes a child: 16 of checksum, 8 of page number. Keys of fixed width have no ends.
    let first = 8 + 24 * (keys + 1) + if kind.key.is_none() { 4 * keys } else { 0 };
    let from = if n == 0 {
        first
    } else {
        branch_key_end(page, kind, n - 1)?
    };
    page.get(from..branch_key_end(page, kind, n)?)
}

/// Returns the keys and values of a leaf; `None` if the page is not a leaf.
pub(crate) fn pairs(page: &[u8], kind: Kind) -> Option<Vec<(&[u8], &[u8])>> {
    let leaf = Leaf::of(page, kind)?;
    (0..leaf.pairs)
        .map(|n| Some((leaf.key(n)?, leaf.value(n)?)))
        .collect()
}

/// A leaf page.
#[derive(Clone, Copy)]
struct Leaf<'p> {
    page: &'p [u8],
    kind: Kind,
    pairs: usize,
}

impl<'p> Leaf<'p> {
    fn of(page: &'p [u8], kind: Kind) -> Option<Self> {
        (page.first() == Some(&LEAF)).then_some(Self {
            page,
            kind,
            pairs: count(page)?,
        })
    }

    fn key(&self, n: usize) -> Option<&'p [u8]> {
        let from = if n == 0 {
            self.keys_at()
        } else {
            self.key_end(n - 1)?
        };
        self.page.get(from..self.key_end(n)?)
    }

    fn value(&self, n: usize) -> Option<&'p [u8]> {
        let from = if n == 0 {
            self.key_end(self.pairs.checked_sub(1)?)?
        } else {
            self.value_end(n - 1)?
        };
        self.page.get(from..self.value_end(n)?)
    }

    /// The offset of the first key, after the stored ends of keys and values.
    fn keys_at(&self) -> usize {
        let stored = usize::from(self.kind.key.is_none()) + usize::from(self.kind.value.is_none());
        4 + 4 * self.pairs * stored
    }

    /// The offset after key n.
    fn key_end(&self, n: usize) -> Option<usize> {
        match self.kind.key {
            Some(width) => Some(self.keys_at() + width as usize * (n + 1)),
            None => Some(u32_at(self.page, 4 + 4 * n)? as usize),
        }
    }

    /// The offset after value n.
    fn value_end(&self, n: usize) -> Option<usize> {
        let ends = 4 + if self.kind.key.is_none() {
            4 * self.pairs
        } else {
            0
        };
        match self.kind.value {
            Some(width) => {
                Some(self.key_end(self.pairs.checked_sub(1)?)? + width as usize * (n + 1))
            }
            None => Some(u32_at(self.page, ends + 4 * n)? as usize),
        }
    }
}

/// The number of pairs in a leaf or of keys in a branch.
fn count(page: &[u8]) -> Option<usize> {
    Some(u16::from_le_bytes(chunk(page, 2)?).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(chunk(bytes, at)?))
}

/// Returns N bytes at an offset; `None` if the page ends before them.
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
