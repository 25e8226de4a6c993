use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redb::TableHandle as _;
use table_core::Result;

use crate::error::Failure;
use crate::file::{Contents, Header, PAGE, PageRef, Session, page};
use crate::format::{self, ROWS};
use crate::guard::guarded;
use crate::shared::Snapshot;

/// Maximum number of damages that a report lists.
const MAX_LISTED: usize = 100;
/// Maximum bytes read from one snapshot. The store cannot reuse the snapshot's pages until the next one.
const MAX_SLICE_BYTES: u64 = 32 << 20;

/// The result of [`EmbeddedStore::verify`](crate::EmbeddedStore::verify).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// Number of pages read. A page that refers to others may count several times.
    pub pages: u64,
    /// Bytes of these pages.
    pub bytes: u64,
    /// Number of rows, including rows of dropped tables that are not reclaimed yet.
    pub rows: u64,
    /// Number of damaged pages and rows. Pages below a damaged page were not read. A page that changes during the verification may count
    /// again.
    pub damaged: u64,
    /// The first 100 damages.
    pub damages: Vec<Damage>,
}

/// A damaged page or row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Offset of the page in `tables.redb`, in bytes.
    pub offset: u64,
    /// Description of the damage, with the row's key if it is known.
    pub description: String,
}

impl Verification {
    /// Whether no damage was found.
    pub fn is_sound(&self) -> bool {
        self.damaged == 0
    }
}

/// A snapshot of the file. Pages with rows and table definitions do not change until it is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    header: Header,
    session: Session,
    /// A second handle of the file, to remove pages from the operating system's cache.
    file: Option<File>,
    /// The ids of all tables, including dropped ones, if they can be read.
    tables: Option<BTreeSet<u64>>,
    /// The result for the engine's own tables, if they were read.
    engine_tables: Verification,
    /// `None` if damage prevents the snapshot, and then every write too.
    snapshot: Option<Arc<Snapshot>>,
}

impl Pinned {
    /// Pins the last commit, which must be on the disk. Pages of the engine's own tables cannot be pinned, so
    /// they are read here, if at all, where no commit can run.
    pub(crate) fn new(
        snapshot: Option<Arc<Snapshot>>,
        session: Session,
        file: Option<File>,
        include_engine_tables: bool,
    ) -> Result<Self, Failure> {
        let mut header = vec![0; PAGE as usize];
        session
            .read_unchecked(0, &mut header)
            .map_err(Failure::io("reading", "tables.redb"))?;
        let header = Header::parse(&header).ok_or(Failure::DamagedPage)?;
        let mut pinned = Self {
            header,
            session,
            file,
            tables: None,
            engine_tables: Verification::default(),
            snapshot,
        };
        pinned.tables = pinned
            .snapshot
            .as_ref()
            .and_then(|snapshot| guarded(|| tables(snapshot)).flatten());
        if let Some(root) = pinned.header.roots[1].filter(|_| include_engine_tables) {
            let mut walk = Walk::default();
            walk.definitions(&pinned, root, true, &mut None);
            pinned.engine_tables = walk.report;
        }
        Ok(pinned)
    }

    /// Whether a row may belong to this table. If the list of tables cannot be read, every table is possible.
    fn has_table(&self, table: u64) -> bool {
        self.tables
            .as_ref()
            .is_none_or(|tables| tables.contains(&table))
    }

    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.file {
            let len = std::num::NonZeroU64::new(out.len() as u64);
            // Cached data says nothing about the disk. The operating system may ignore this request.
            let _ = rustix::fs::fadvise(file, at, len, rustix::fs::Advice::DontNeed);
        }
        self.session.read_unchecked(at, out)
    }
}

/// The ids of the tables with rows; `None` if the metadata cannot be read.
fn tables(snapshot: &Snapshot) -> Option<BTreeSet<u64>> {
    let contents = Contents::read(&snapshot.transaction).ok()?;
    Some(
        contents
            .catalog
            .iter()
            .map(|(id, _)| id)
            .chain(contents.dropped)
            .collect(),
    )
}

/// A verification in progress.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    report: Verification,
    /// Rows up to this key were read.
    read_up_to: Option<Vec<u8>>,
    slice_bytes: u64,
    bytes_per_second: u64,
    /// The page of the last damage, and its damages. Pages that refer to others are read again for each snapshot, and a leaf can have
    /// the same damage in many rows.
    last_damaged: (u64, BTreeSet<String>),
    /// Bytes and leaves with rows that were read from this snapshot.
    read: u64,
    leaves: u64,
    begun: bool,
    ended: bool,
}

impl Walk {
    /// A walk that reads at most this many bytes per second.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        let bytes_per_second = bytes_per_second.max(PAGE);
        Self {
            slice_bytes: (bytes_per_second / 4).clamp(PAGE, MAX_SLICE_BYTES),
            bytes_per_second,
            ..Self::default()
        }
    }

    /// Adds a damage to the report, unless the report has it.
    fn add(&mut self, page: &PageRef, description: String) {
        if self.last_damaged.0 != page.at {
            self.last_damaged = (page.at, BTreeSet::new());
        }
        let damage = Damage {
            offset: page.at,
            description,
        };
        let is_new = self.last_damaged.1.insert(damage.description.clone());
        if !is_new || self.report.damages.contains(&damage) {
            return;
        }
        self.report.damaged += 1;
        if self.report.damages.len() < MAX_LISTED {
            self.report.damages.push(damage);
        }
    }

    pub(crate) const fn has_begun(&self) -> bool {
        self.begun
    }

    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn into_report(self) -> Verification {
        self.report
    }

    /// Reads the next pages from a snapshot.
    pub(crate) fn advance(mut self, pinned: &Pinned) -> Result<Self> {
        let turn = guarded(|| {
            self.read_snapshot(pinned);
            self
        });
        turn.ok_or_else(|| Failure::DamagedPage.into())
    }

    fn read_snapshot(&mut self, pinned: &Pinned) {
        let started = Instant::now();
        self.read = 0;
        let first = !std::mem::replace(&mut self.begun, true);
        if first {
            self.report = pinned.engine_tables.clone();
        }
        let mut rows = None;
        // The definitions once more for each snapshot, because the root of the rows moves with every commit. The other tables only in the
        // first: they are small and change rarely.
        if let Some(root) = pinned.header.roots[0] {
            self.definitions(pinned, root, first, &mut rows);
        }
        self.leaves = 0;
        self.ended = rows.is_none_or(|root| self.rows(pinned, &root, None, None));
        // The time of reading counts too, so the pause is the rest of the time that these bytes may take.
        let due = Duration::from_secs_f64(self.read as f64 / self.bytes_per_second as f64);
        sleep(due.saturating_sub(started.elapsed()));
    }

    /// Reads a tree of definitions, and all pages of the tables in it except for the table of rows.
    fn definitions(
        &mut self,
        pinned: &Pinned,
        root: PageRef,
        all: bool,
        rows: &mut Option<PageRef>,
    ) {
        let Some(page) = self.page(pinned, &root) else {
            return;
        };
        if let Some(children) = pinned.header.children_with_keys(&page, root.kind) {
            for (child, _) in children {
                self.definitions(pinned, child, all, rows);
            }
            return;
        }
        let Some(definitions) = pinned.header.definitions(&page) else {
            return self.add(&root, "its table definitions are invalid".to_owned());
        };
        for (name, table) in definitions {
            match table {
                Some(table) if name == ROWS.name().as_bytes() => *rows = Some(table),
                Some(table) if all => self.tree(pinned, &table),
                _ => {}
            }
        }
    }

    fn tree(&mut self, pinned: &Pinned, root: &PageRef) {
        let Some(page) = self.page(pinned, root) else {
            return;
        };
        for (child, _) in pinned
            .header
            .children_with_keys(&page, root.kind)
            .into_iter()
            .flatten()
        {
            self.tree(pinned, &child);
        }
    }

    /// Reads the rows below a page. Their keys must be above `after` and at most `last`. Returns whether all
    /// were read.
    fn rows(
        &mut self,
        pinned: &Pinned,
        at: &PageRef,
        after: Option<&[u8]>,
        last: Option<&[u8]>,
    ) -> bool {
        let done = |walk: &Self| {
            last.zip(walk.read_up_to.as_deref())
                .is_some_and(|(last, read_up_to)| last <= read_up_to)
        };
        if done(self) {
            return true;
        }
        // At least one leaf for each snapshot. Otherwise inner pages alone could use up the slice, and the walk would not advance.
        if self.leaves > 0 && self.read >= self.slice_bytes {
            return false;
        }
        let Some(page) = self.page(pinned, at) else {
            // Nothing below the page can be read, so reading continues after it.
            self.read_up_to = last.map(<[u8]>::to_vec).or_else(|| self.read_up_to.take());
            self.leaves += 1;
            return true;
        };
        let Some(children) = pinned.header.children_with_keys(&page, at.kind) else {
            self.leaf(pinned, at, &page, (after, last));
            return true;
        };
        let mut after = after;
        for (child, key) in &children {
            if !self.rows(pinned, child, after, key.as_deref().or(last)) {
                return false;
            }
            after = key.as_deref();
        }
        true
    }

    fn leaf(
        &mut self,
        pinned: &Pinned,
        at: &PageRef,
        page: &[u8],
        (after, last): (Option<&[u8]>, Option<&[u8]>),
    ) {
        self.leaves += 1;
        let Some(pairs) = page::pairs(page, at.kind) else {
            // Nothing in the leaf can be read, so reading continues after it.
            self.read_up_to = last.map(<[u8]>::to_vec).or_else(|| self.read_up_to.take());
            return self.add(at, "its rows cannot be parsed".to_owned());
        };
        let (mut before, mut is_in_order) = (after, true);
        let read_up_to = self.read_up_to.take();
        for (key, row) in pairs {
            // Rows that an earlier step has counted.
            self.report.rows += u64::from(
                read_up_to
                    .as_deref()
                    .is_none_or(|read_up_to| key > read_up_to),
            );
            if before.is_some_and(|before| key <= before) || last.is_some_and(|last| key > last) {
                self.add(at, "its keys are out of order".to_owned());
                is_in_order = false;
            }
            if let Err(damaged) = format::open_row(key, row) {
                self.add(at, damaged.to_string());
            } else if format::table_of(key).is_none_or(|table| !pinned.has_table(table)) {
                self.add(at, "it has a row of an unknown table".to_owned());
            }
            before = Some(key);
        }
        // Every leaf advances the walk, or it would be read again from each snapshot. A key that is out of order says nothing about the
        // leaves that follow, and a leaf whose last rows were deleted ends before rows that were read already.
        let advances = is_in_order && before > read_up_to.as_deref();
        let end = if advances { before } else { last };
        self.read_up_to = end.map(<[u8]>::to_vec).max(read_up_to);
    }

    /// Returns a page that matches its checksum; otherwise reports the damage.
    fn page(&mut self, pinned: &Pinned, at: &PageRef) -> Option<Vec<u8>> {
        let mut page = vec![0; at.len()];
        (self.report.pages, self.report.bytes) =
            (self.report.pages + 1, self.report.bytes + at.len() as u64);
        self.read += at.len() as u64;
        match pinned.read(at.at, &mut page) {
            Err(error) => self.add(at, format!("it cannot be read: {error}")),
            Ok(()) if page::sum(&page, at.kind) != Some(at.sum) => {
                self.add(at, "it does not match its checksum".to_owned());
            }
            Ok(()) => return Some(page),
        }
        None
    }
}
