use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redb::TableHandle as _;
use table_core::Result;

use crate::EmbeddedStore;
use crate::error::Failure;
use crate::file::{Contents, Header, PAGE, PageRef, Session, page};
use crate::format::{self, ROWS};
use crate::guard::guarded;
use crate::shared::Snapshot;
use crate::store::blocking;

/// Damages that a report lists.
const LISTED: usize = 100;
/// Bytes that are read of one moment of the store, at most: its pages cannot be used again until then.
const SLICE: u64 = 32 << 20;

/// What [`EmbeddedStore::verify`] has read and found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// Pages of the file that were read. One that leads to others may count several times.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Rows, also of dropped tables that are not reclaimed yet.
    pub rows: u64,
    /// How many pages and rows are damaged. What a damaged page leads to was not read.
    pub damaged: u64,
    /// The first 100 of them.
    pub damages: Vec<Damage>,
}

/// A page or a row that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Where the page begins in `tables.redb`, in bytes.
    pub offset: u64,
    /// What is wrong with it, with the key of the row where it is known.
    pub what: String,
}

impl Verification {
    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.damaged == 0
    }

    fn add(&mut self, page: &PageRef, what: String) {
        let damage = Damage { offset: page.at, what };
        // Pages that lead to others are met again.
        if self.damages.contains(&damage) {
            return;
        }
        self.damaged += 1;
        if self.damages.len() < LISTED {
            self.damages.push(damage);
        }
    }
}

/// The file at one moment. Pages with rows and definitions of tables stay as they are until it is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    header: Header,
    session: Session,
    /// The file once more, to tell the system which pages to forget.
    file: Option<File>,
    /// The ids of tables, also of dropped ones, if they can be read.
    tables: Option<BTreeSet<u64>>,
    /// What was found in the engine's own tables, if they were read.
    own: Verification,
    /// `None` if damage keeps it from being taken, and everything from being written.
    snapshot: Option<Arc<Snapshot>>,
}

impl Pinned {
    /// Of a file whose last commit is on the disk. Pages of the engine's own tables do not stay: they are read here, if at all, where nothing is
    /// committed meanwhile.
    pub(crate) fn new(
        snapshot: Option<Arc<Snapshot>>,
        session: Session,
        file: Option<File>,
        own: bool,
    ) -> Result<Self, Failure> {
        let mut header = vec![0; PAGE as usize];
        session.read_unchecked(0, &mut header).map_err(Failure::io("reading", "tables.redb"))?;
        let header = Header::parse(&header).ok_or(Failure::DamagedPage)?;
        let mut pinned = Self { header, session, file, tables: None, own: Verification::default(), snapshot };
        pinned.tables = pinned.snapshot.as_ref().and_then(|snapshot| guarded(|| tables(snapshot)).flatten());
        if let Some(root) = pinned.header.roots[1].filter(|_| own) {
            let mut walk = Walk::default();
            walk.definitions(&pinned, root, true, &mut None);
            pinned.own = walk.report;
        }
        Ok(pinned)
    }

    fn has_table(&self, table: u64) -> bool {
        self.tables.as_ref().is_none_or(|tables| tables.contains(&table))
    }

    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.file {
            let len = std::num::NonZeroU64::new(out.len() as u64);
            // What the system has read before says nothing of the disk. It may keep it all the same.
            let _ = rustix::fs::fadvise(file, at, len, rustix::fs::Advice::DontNeed);
        }
        self.session.read_unchecked(at, out)
    }
}

fn tables(snapshot: &Snapshot) -> Option<BTreeSet<u64>> {
    let contents = Contents::read(&snapshot.transaction).ok()?;
    Some(contents.catalog.iter().map(|(id, _)| id).chain(contents.dropped).collect())
}

impl EmbeddedStore {
    /// Reads every page of the file, from the disk where the system lets it, and compares it with the checksum that the page holds which
    /// leads to it; and compares every row with its own, and its key with its neighbours'.
    ///
    /// Reads and writes go on. At most so many bytes are read in a second; the whole file takes its length divided by that. Every 32 MiB,
    /// or quarter of a second, the next pages are taken from the store's state at that time: what changed since then is read as it is now. Each
    /// time there is a small commit. A future that is dropped ends it.
    ///
    /// A report without damages says that every row that the store had at these times can be read. It says nothing of free pages, and nothing of what
    /// happens to the disk afterwards.
    ///
    /// # Errors
    /// The store is closed, or cannot be written just now; the disk cannot be read. Damage is no error but in the report, unless it is in what
    /// each commit needs.
    pub async fn verify(&self, bytes_per_second: u64) -> Result<Verification> {
        let rate = bytes_per_second.max(PAGE);
        let mut walk = Walk { slice: (rate / 4).clamp(PAGE, SLICE), rate, ..Walk::default() };
        while !walk.ended {
            let pinned = self.inner.queue.pin(!walk.begun).await?;
            walk = blocking(move || {
                let turn = guarded(|| {
                    walk.go_on(&pinned);
                    walk
                });
                turn.ok_or_else(|| Failure::DamagedPage.into())
            })
            .await?;
        }
        Ok(walk.report)
    }
}

#[derive(Debug, Default)]
struct Walk {
    report: Verification,
    /// Rows up to this key were read.
    upto: Option<Vec<u8>>,
    slice: u64,
    rate: u64,
    /// Bytes of this turn, and leaves with rows.
    read: u64,
    leaves: u64,
    begun: bool,
    ended: bool,
}

impl Walk {
    fn go_on(&mut self, pinned: &Pinned) {
        let started = Instant::now();
        self.read = 0;
        let first = !std::mem::replace(&mut self.begun, true);
        if first {
            self.report = pinned.own.clone();
        }
        let mut rows = None;
        if let Some(root) = pinned.header.roots[0] {
            self.definitions(pinned, root, first, &mut rows);
        }
        self.leaves = 0;
        self.ended = rows.is_none_or(|root| self.rows(pinned, &root, None, None));
        let due = Duration::from_secs_f64(self.read as f64 / self.rate as f64);
        sleep(due.saturating_sub(started.elapsed()));
    }

    /// A tree of definitions; of the tables that it names all pages, but those of rows.
    fn definitions(&mut self, pinned: &Pinned, root: PageRef, all: bool, rows: &mut Option<PageRef>) {
        let Some(page) = self.page(pinned, &root) else { return };
        if let Some(children) = pinned.header.children_with_keys(&page, root.kind) {
            for (child, _) in children {
                self.definitions(pinned, child, all, rows);
            }
            return;
        }
        let Some(definitions) = pinned.header.definitions(&page) else {
            return self.report.add(&root, "it names tables that cannot be".to_owned());
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
        let Some(page) = self.page(pinned, root) else { return };
        for (child, _) in pinned.header.children_with_keys(&page, root.kind).into_iter().flatten() {
            self.tree(pinned, &child);
        }
    }

    /// The rows below a page, of which no key is above `last`, and all are above `after`; whether all were read.
    fn rows(&mut self, pinned: &Pinned, at: &PageRef, after: Option<&[u8]>, last: Option<&[u8]>) -> bool {
        let done = |walk: &Self| last.zip(walk.upto.as_deref()).is_some_and(|(last, upto)| last <= upto);
        if done(self) {
            return true;
        }
        if self.leaves > 0 && self.read >= self.slice {
            return false;
        }
        let Some(page) = self.page(pinned, at) else {
            // Nothing below it can be read: it goes on behind.
            self.upto = last.map(<[u8]>::to_vec).or_else(|| self.upto.take());
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
            return self.report.add(at, "its rows cannot be found".to_owned());
        };
        let mut before = after;
        let upto = self.upto.clone();
        for (key, row) in pairs {
            // Rows that an earlier turn has counted.
            self.report.rows += u64::from(upto.as_deref().is_none_or(|upto| key > upto));
            if before.is_some_and(|before| key <= before) || last.is_some_and(|last| key > last) {
                self.report.add(at, "its keys are not in their order".to_owned());
            }
            if let Err(damaged) = format::open_row(key, row) {
                self.report.add(at, damaged.to_string());
            } else if format::table_of(key).is_none_or(|table| !pinned.has_table(table)) {
                self.report.add(at, "it has a row of a table that there is not".to_owned());
            }
            before = Some(key);
        }
        self.upto = before.map(<[u8]>::to_vec).max(upto);
    }

    /// A page that matches its checksum; what does not is noted.
    fn page(&mut self, pinned: &Pinned, at: &PageRef) -> Option<Vec<u8>> {
        let mut page = vec![0; at.len()];
        (self.report.pages, self.report.bytes) = (self.report.pages + 1, self.report.bytes + at.len() as u64);
        self.read += at.len() as u64;
        match pinned.read(at.at, &mut page) {
            Err(error) => self.report.add(at, format!("it cannot be read: {error}")),
            Ok(()) if page::sum(&page, at.kind) != Some(at.sum) => {
                self.report.add(at, "it does not match its checksum".to_owned());
            }
            Ok(()) => return Some(page),
        }
        None
    }
}
