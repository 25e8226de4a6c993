//! The engine's pages, as far as their checksums need: redb's file format 3, `docs/design.md` of its sources.
//!
//! Every page but the header is a node of a tree, and a node holds the checksums of its children. The header holds those of two roots: the trees
//! of table definitions, whose leaves hold those of the tables.

use xxhash_rust::xxh3::xxh3_128;

/// Bytes of the smallest page, and of the header.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of the header that are in use.
const HEADER: usize = 320;
const MAGIC: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";
const GOD_BYTE: usize = 9;
const PAGE_SIZE_AT: usize = 12;
const REGION_PAGES_AT: usize = 20;
const SLOTS_AT: usize = 64;
const SLOT: usize = 128;
const MAX_ORDER: u32 = 20;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;

/// What the pages of a tree hold. Where keys or values have one width, their ends are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    key: Option<u32>,
    value: Option<u32>,
    /// Whether the values are definitions of tables.
    definitions: bool,
}

impl Kind {
    const DEFINITIONS: Self = Self { key: None, value: None, definitions: true };

    /// Whether the tree's leaves lead to the roots of tables.
    pub(crate) fn has_definitions(self) -> bool {
        self.definitions
    }
}

/// A page as its parent refers to it.
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

/// What the header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    region_bytes: u64,
    /// The roots of the last commit: of the tables of users, and of the engine's own.
    pub(crate) roots: [Option<PageRef>; 2],
    /// Whether the file was not closed.
    pub(crate) unclean: bool,
}

impl Header {
    /// `None` if the header is not one, or its current half is damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let god = bytes[GOD_BYTE];
        let whole = bytes.starts_with(MAGIC) && u64::from(u32_at(bytes, PAGE_SIZE_AT)?) == PAGE;
        let region_bytes = u64::from(u32_at(bytes, REGION_PAGES_AT)?) * PAGE;
        let slot = &bytes[SLOTS_AT + SLOT * usize::from(god & 1)..][..SLOT];
        let (slot, sum) = slot.split_last_chunk::<16>()?;
        if !whole || xxh3_128(slot).to_le_bytes() != *sum {
            return None;
        }
        let mut header = Self { region_bytes, roots: [None; 2], unclean: god & 2 != 0 };
        for (n, at) in [8, 40].into_iter().enumerate() {
            if slot[1 + n] != 0 {
                header.roots[n] = Some(header.reference(slot, at, at + 8, Kind::DEFINITIONS)?);
            }
        }
        Some(header)
    }

    /// A reference: a page number at one place, its checksum at another.
    fn reference(&self, bytes: &[u8], number_at: usize, sum_at: usize, kind: Kind) -> Option<PageRef> {
        let number = u64::from_le_bytes(chunk(bytes, number_at)?);
        let sum = u128::from_le_bytes(chunk(bytes, sum_at)?);
        let order = (number >> 59) as u32;
        if order > MAX_ORDER {
            return None;
        }
        let (index, region) = (number & (0xF_FFFF >> order), (number >> 20) & 0xF_FFFF);
        let at = PAGE + region * self.region_bytes + index * (PAGE << order);
        Some(PageRef { at, order: order as u8, sum, kind })
    }

    /// The pages that a page refers to: its children, and the roots that its definitions name. `None` if it contradicts itself.
    pub(crate) fn references(&self, page: &[u8], kind: Kind) -> Option<Vec<PageRef>> {
        if page.first() == Some(&BRANCH) {
            return self.children(page, kind);
        }
        if !kind.definitions {
            return Some(Vec::new());
        }
        Some(self.definitions(page)?.into_iter().filter_map(|(_, root)| root).collect())
    }

    fn children(&self, page: &[u8], kind: Kind) -> Option<Vec<PageRef>> {
        let children = count(page)? + 1;
        let child = |n: usize| self.reference(page, 8 + 16 * children + 8 * n, 8 + 16 * n, kind);
        (0..children).map(child).collect()
    }

    /// The children of a branch, each with the last key that may be below it, which the last one has from its parent; `None` if the page is not
    /// a branch.
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

    /// The names of tables and their roots, from a leaf of definitions.
    pub(crate) fn definitions(&self, page: &[u8]) -> Option<Vec<(Vec<u8>, Option<PageRef>)>> {
        let pairs = pairs(page, Kind::DEFINITIONS)?.into_iter();
        pairs.map(|(name, definition)| Some((name.to_vec(), self.root_of(definition)?))).collect()
    }

    /// The root that the definition of a table names, if the table has pages.
    fn root_of(&self, definition: &[u8]) -> Option<Option<PageRef>> {
        let width = |at: usize| match *definition.get(at)? {
            0 => Some(None),
            _ => Some(Some(u32_at(definition, at + 1)?)),
        };
        let kind = Kind { key: width(42)?, value: width(47)?, definitions: false };
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

/// The checksum of a page's bytes that are in use; `None` if it contradicts itself.
pub(crate) fn sum(page: &[u8], kind: Kind) -> Option<u128> {
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
    let first = 8 + 24 * (keys + 1) + if kind.key.is_none() { 4 * keys } else { 0 };
    let from = if n == 0 { first } else { branch_key_end(page, kind, n - 1)? };
    page.get(from..branch_key_end(page, kind, n)?)
}

/// The keys and values of a leaf; `None` if it is not one.
pub(crate) fn pairs(page: &[u8], kind: Kind) -> Option<Vec<(&[u8], &[u8])>> {
    let leaf = Leaf::of(page, kind)?;
    (0..leaf.pairs).map(|n| Some((leaf.key(n)?, leaf.value(n)?))).collect()
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
        (page.first() == Some(&LEAF)).then_some(Self { page, kind, pairs: count(page)? })
    }

    fn key(&self, n: usize) -> Option<&'p [u8]> {
        let from = if n == 0 { self.keys_at() } else { self.key_end(n - 1)? };
        self.page.get(from..self.key_end(n)?)
    }

    fn value(&self, n: usize) -> Option<&'p [u8]> {
        let from = if n == 0 { self.key_end(self.pairs.checked_sub(1)?)? } else { self.value_end(n - 1)? };
        self.page.get(from..self.value_end(n)?)
    }

    fn keys_at(&self) -> usize {
        let stored = usize::from(self.kind.key.is_none()) + usize::from(self.kind.value.is_none());
        4 + 4 * self.pairs * stored
    }

    fn key_end(&self, n: usize) -> Option<usize> {
        match self.kind.key {
            Some(width) => Some(self.keys_at() + width as usize * (n + 1)),
            None => Some(u32_at(self.page, 4 + 4 * n)? as usize),
        }
    }

    fn value_end(&self, n: usize) -> Option<usize> {
        let ends = 4 + if self.kind.key.is_none() { 4 * self.pairs } else { 0 };
        match self.kind.value {
            Some(width) => Some(self.key_end(self.pairs.checked_sub(1)?)? + width as usize * (n + 1)),
            None => Some(u32_at(self.page, ends + 4 * n)? as usize),
        }
    }
}

/// Pairs of a leaf, keys of a branch.
fn count(page: &[u8]) -> Option<usize> {
    Some(u16::from_le_bytes(chunk(page, 2)?).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(chunk(bytes, at)?))
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
