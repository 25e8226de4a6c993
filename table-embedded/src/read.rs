use std::ops::Bound;

use redb::ReadableTable;
use table_core::Result;
use table_core::engine::{Scan, ScanStep, read_entity};
use table_core::model::{Entity, Key, PackBuffer, TableName};
use table_core::query::{Continuation, Page, Query, Select};
use table_core::store::ServiceProfile;

use crate::error::Failure;
use crate::format;
use crate::shared::Snapshot;

impl Snapshot {
    pub(crate) fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let stored = format::row_key(self.catalog.id(table)?, key);
        let row = self.rows.get(stored.as_slice()).map_err(Failure::read)?;
        let Some(row) = row else { return Ok(None) };
        let mut record = PackBuffer::default();
        format::unpack_row(&self.catalog.dictionary, &stored, row.value(), &mut record)?;
        read_entity(key.clone(), record.as_bytes(), select).map(Some)
    }

    pub(crate) fn query(
        &self,
        profile: &ServiceProfile,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let id = self.catalog.id(table)?;
        let mut scan = Scan::new(profile, table, query, from)?;
        let Some((from, to)) = scan.range().map(|range| stored_range(id, range)) else {
            return Ok(scan.finish());
        };
        let dictionary = &self.catalog.dictionary;
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        // Each page was checked by itself; this checks the order across pages.
        let mut before: Vec<u8> = Vec::new();
        for row in ReadableTable::range::<&[u8]>(&self.rows, range).map_err(Failure::read)? {
            let (key, row) = row.map_err(Failure::read)?;
            let record = format::open_row(key.value(), row.value())?;
            if key.value() <= before.as_slice() || format::table_of(key.value()) != Some(id) {
                return Err(Failure::DamagedOrder.into());
            }
            before.clear();
            before.extend_from_slice(key.value());
            if scan.offer_numbered(format::sortable(key.value()), record, dictionary)? == ScanStep::Done {
                break;
            }
        }
        Ok(scan.finish())
    }
}

type Range<B> = (Bound<B>, Bound<B>);

/// Converts a range of a table's keys to a range of stored keys. It must not reach into the next table.
fn stored_range(id: u64, (from, to): Range<&[u8]>) -> Range<Vec<u8>> {
    let prefixed = |bound: Bound<&[u8]>| bound.map(|key| format::prefixed(id, key));
    let from = match from {
        Bound::Unbounded => Bound::Included(format::prefixed(id, &[])),
        bound => prefixed(bound),
    };
    let to = match to {
        Bound::Unbounded => Bound::Excluded(format::prefixed(id + 1, &[])),
        bound => prefixed(bound),
    };
    (from, to)
}
