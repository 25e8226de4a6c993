use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::engine::{self, Change, Scan, ScanStep, Stamp, apply_group, apply_to, read_entity};
use crate::model::{Entity, Key, TableName};
use crate::query::{Continuation, Page, Query, Select};
use crate::store::{Operation, Result, ServiceProfile, Written};

/// The rows of one table: bytes of [`Record`] by sortable key.
#[derive(Debug)]
pub(super) struct MemoryTable {
    pub(super) name: TableName,
    rows: RwLock<Rows>,
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

impl engine::Rows for Rows {
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> Result<R>) -> Result<R> {
        look(self.get(key).map(Vec::as_slice))
    }
}

impl MemoryTable {
    pub(super) fn new(name: TableName) -> Self {
        Self { name, rows: RwLock::default() }
    }

    pub(super) fn get(&self, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        let rows = self.read();
        let row = rows.get(&key.to_sortable());
        row.map(|bytes| read_entity(key.clone(), bytes, select)).transpose()
    }

    pub(super) fn query(
        &self,
        profile: &ServiceProfile,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let mut scan = Scan::new(profile, &self.name, query, from)?;
        let rows = self.read();
        if let Some((from, to)) = owned(scan.range()) {
            for (key, record) in rows.range::<[u8], _>((as_ref(&from), as_ref(&to))) {
                if scan.offer(key, record)? == ScanStep::Done {
                    break;
                }
            }
        }
        Ok(scan.finish())
    }

    pub(super) fn write(
        &self,
        profile: &ServiceProfile,
        operation: Operation,
        stamp: impl FnOnce() -> Stamp,
    ) -> Result<Written> {
        let mut rows = self.write_lock();
        let (key, change) = apply_to(&*rows, profile, &self.name, operation, stamp())?;
        let written = change.written();
        store(&mut rows, key, change);
        Ok(written)
    }

    pub(super) fn transact(
        &self,
        profile: &ServiceProfile,
        operations: Vec<Operation>,
        stamp: impl FnMut() -> Stamp,
    ) -> Result<Vec<Written>> {
        let mut rows = self.write_lock();
        let changes = apply_group(&*rows, profile, &self.name, operations, stamp)?;
        let written = changes.iter().map(|(_, change)| change.written()).collect();
        changes.into_iter().for_each(|(key, change)| store(&mut rows, key, change));
        Ok(written)
    }

    // A panic cannot leave the map partly changed: all changes are decided before the first is stored.
    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn store(rows: &mut Rows, key: Vec<u8>, change: Change) {
    match change {
        Change::Put(record) => rows.insert(key, record.to_bytes()),
        Change::Remove => rows.remove(&key),
    };
}

type Bounds<B> = (Bound<B>, Bound<B>);

fn owned(range: Option<Bounds<&[u8]>>) -> Option<Bounds<Vec<u8>>> {
    range.map(|(from, to)| (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec)))
}

fn as_ref(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
