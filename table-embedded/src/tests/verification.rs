//! Damage that matches its checksums: each test changes pages of a closed file, and seals them again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use redb::TableHandle as _;
use table_core::model::Entity;
use table_core::store::{Operation, TableStore};
use tokio::time::timeout;
use xxhash_rust::xxh3::xxh3_128;

use super::Fixture;
use crate::file::{Header, PAGE, PageRef, page};
use crate::format::ROWS;
use crate::{Durability, Verification};

/// The bytes of a closed file.
struct Bytes {
    path: PathBuf,
    bytes: Vec<u8>,
    header: Header,
}

impl Bytes {
    async fn of(fixture: &Fixture) -> Self {
        fixture.store.close().await.unwrap();
        let path = fixture.directory.path().join("store/tables.redb");
        let bytes = fs::read(&path).unwrap();
        let header = Header::parse(&bytes[..PAGE as usize]).unwrap();
        Self {
            path,
            bytes,
            header,
        }
    }

    fn page(&self, at: &PageRef) -> &[u8] {
        &self.bytes[at.at as usize..][..at.len()]
    }

    /// Returns the offset of a part of the page in the page.
    fn offset(page: &[u8], part: &[u8]) -> usize {
        part.as_ptr() as usize - page.as_ptr() as usize
    }

    /// Returns the pages that a page refers to, each with the offset of its checksum in the page.
    fn children(&self, at: &PageRef) -> Vec<(PageRef, usize)> {
        let page = self.page(at);
        if let Some(children) = self.header.children_with_keys(page, at.kind) {
            return children
                .into_iter()
                .enumerate()
                .map(|(n, (child, _))| (child, 8 + 16 * n))
                .collect();
        }
        if !at.kind.has_definitions() {
            return Vec::new();
        }
        let definitions = page::pairs(page, at.kind)
            .unwrap()
            .into_iter()
            .zip(self.header.definitions(page).unwrap());
        let root = |((_, definition), (_, root)): ((_, &[u8]), (_, Option<PageRef>))| {
            Some((root?, Self::offset(page, definition) + 18))
        };
        definitions.filter_map(root).collect()
    }

    /// Returns the leaves with rows, in the order of their keys.
    fn leaves(&self) -> Vec<PageRef> {
        let definitions = self
            .header
            .definitions(self.page(&self.header.roots[0].unwrap()))
            .unwrap();
        let (_, root) = definitions
            .into_iter()
            .find(|(name, _)| name == ROWS.name().as_bytes())
            .unwrap();
        self.leaves_below(&root.unwrap())
    }

    fn leaves_below(&self, at: &PageRef) -> Vec<PageRef> {
        let children = self.children(at);
        if children.is_empty() {
            return vec![*at];
        }
        children
            .iter()
            .flat_map(|(child, _)| self.leaves_below(child))
            .collect()
    }

    /// Writes the checksums of all pages below a page; returns the page's own.
    fn seal(&mut self, at: &PageRef) -> u128 {
        for (child, offset) in self.children(at) {
            let sum = self.seal(&child);
            self.bytes[at.at as usize + offset..][..16].copy_from_slice(&sum.to_le_bytes());
        }
        page::sum(self.page(at), at.kind).unwrap()
    }

    /// Writes the checksums of all pages, then the file.
    fn write(mut self) {
        let slot = 64 + 128 * usize::from(self.bytes[9] & 1);
        let sum = self.seal(&self.header.roots[0].unwrap());
        self.bytes[slot + 16..][..16].copy_from_slice(&sum.to_le_bytes());
        let sum = xxh3_128(&self.bytes[slot..slot + 112]);
        self.bytes[slot + 112..][..16].copy_from_slice(&sum.to_le_bytes());
        fs::write(self.path, self.bytes).unwrap();
    }
}

/// Opens the store again and verifies it; panics if that does not end.
async fn verify(fixture: &mut Fixture, bytes_per_second: u64) -> Verification {
    fixture.builder = |builder| builder.verify_up_to(0).cache_bytes(0);
    fixture.reopen().await;
    let verifying = timeout(
        Duration::from_secs(30),
        fixture.store.verify(bytes_per_second),
    );
    verifying.await.expect("the verification ends").unwrap()
}

/// One leaf has as many bytes as are read from one snapshot.
#[tokio::test]
async fn a_leaf_that_cannot_be_parsed_does_not_stop_the_verification() {
    const ROWS: usize = 4;
    let mut fixture = Fixture::new(Durability::Relaxed).await;
    for n in 0..ROWS {
        let row = Entity::new("p", format!("{n}")).unwrap();
        let row = row.with("A", vec![0; 60_000]).with("B", vec![0; 60_000]);
        fixture
            .store
            .write(&fixture.table, Operation::Insert(row))
            .await
            .unwrap();
    }
    let mut bytes = Bytes::of(&fixture).await;
    let leaves = bytes.leaves();
    assert_eq!(leaves.len(), ROWS, "{leaves:?}");
    assert!(
        leaves.iter().all(|leaf| leaf.len() == 128 << 10),
        "{leaves:?}"
    );
    // The end of the first key.
    let at = leaves[1].at as usize + 4;
    bytes.bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    bytes.write();
    let report = verify(&mut fixture, 4 * (128 << 10)).await;
    assert_eq!(report.damaged, 1, "{report:?}");
    assert_eq!(report.damages[0].offset, leaves[1].at);
    assert!(
        report.damages[0].description.contains("cannot be parsed"),
        "{report:?}"
    );
    assert_eq!(report.rows, ROWS as u64 - 1);
}

/// Every row has a key of another table, so the keys of a leaf are above those of the next leaf.
#[tokio::test]
async fn each_damage_counts_once_and_hides_no_other() {
    const ROWS: usize = 300;
    let mut fixture = Fixture::new(Durability::Relaxed).await;
    fixture.fill(&fixture.table, ROWS).await;
    let mut bytes = Bytes::of(&fixture).await;
    let leaves = bytes.leaves();
    assert!(leaves.len() > 3, "{leaves:?}");
    for leaf in &leaves {
        let page = bytes.page(leaf);
        let keys = page::pairs(page, leaf.kind).unwrap();
        let keys: Vec<_> = keys
            .into_iter()
            .map(|(key, _)| Bytes::offset(page, key))
            .collect();
        for key in keys {
            bytes.bytes[leaf.at as usize + key] = 0xFF;
        }
    }
    bytes.write();
    let report = verify(&mut fixture, u64::MAX).await;
    assert_eq!(report.rows, ROWS as u64, "{report:?}");
    // Each row does not match its checksum. The keys of each leaf but the last are above its bound.
    assert_eq!(
        report.damaged,
        (ROWS + leaves.len() - 1) as u64,
        "{report:?}"
    );
    assert_eq!(report.damages.len(), 100);
}
