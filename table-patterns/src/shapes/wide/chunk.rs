//! Which row a property goes to: the one it is in, while it fits.

use std::collections::{BTreeMap, HashMap};

use table_core::engine::property_size;
use table_core::model::{Properties, PropertyRef};
use table_core::store::limits::{CUSTOM_PROPERTIES, ENTITY_BYTES};
use table_core::store::{Error, Result};

use super::rows::{LAST, ROW, ROWS, Stored, WRITE};

/// Properties of a row: what the service allows without the write id, and four for adapters.
const PROPERTIES: usize = CUSTOM_PROPERTIES - 5;
/// Bytes of a row's properties: its keys, the write id and adapters need the rest.
const BYTES: usize = ENTITY_BYTES - 8 * 1024;

/// A row as it fills.
#[derive(Default)]
struct Filling {
    properties: Properties,
    count: usize,
    bytes: usize,
}

impl Filling {
    fn fits(&self, size: usize) -> bool {
        self.count < PROPERTIES && self.bytes + size <= BYTES
    }

    fn push(&mut self, p: &PropertyRef<'_>, size: usize) {
        self.properties.push(p.name(), p.value(), p.is_encrypted());
        self.count += 1;
        self.bytes += size;
    }
}

/// The rows of an entity's properties, each property where it was if it still fits there.
///
/// # Errors
/// A property has a reserved name, or is larger than a row.
pub(super) fn place(old: Option<&Stored>, properties: &Properties) -> Result<BTreeMap<u16, Properties>> {
    let places = places(old);
    let mut rows = BTreeMap::<u16, Filling>::new();
    let mut homeless = Vec::new();
    for p in properties {
        let size = checked_size(&p)?;
        let row = places.get(p.name()).map(|number| rows.entry(*number).or_default());
        match row.filter(|row| row.fits(size)) {
            Some(row) => row.push(&p, size),
            None => homeless.push((p, size)),
        }
    }
    for (p, size) in homeless {
        settle(&mut rows, &p, size);
    }
    Ok(rows.into_iter().map(|(number, row)| (number, row.properties)).collect())
}

fn places(old: Option<&Stored>) -> HashMap<&str, u16> {
    let chunks = old.into_iter().flat_map(|stored| &stored.chunks);
    chunks.flat_map(|(number, chunk)| chunk.properties.iter().map(|p| (p.name(), *number))).collect()
}

/// Into the last row, else the first with room, else a new one.
fn settle(rows: &mut BTreeMap<u16, Filling>, p: &PropertyRef<'_>, size: usize) {
    let room = |(_, row): &(&u16, &mut Filling)| row.fits(size);
    if let Some(mut last) = rows.last_entry().filter(|last| last.get().fits(size)) {
        return last.get_mut().push(p, size);
    }
    if let Some((_, row)) = rows.iter_mut().find(room) {
        return row.push(p, size);
    }
    let number = (1..=LAST).find(|number| !rows.contains_key(number)).unwrap_or(LAST);
    rows.entry(number).or_default().push(p, size);
}

fn checked_size(p: &PropertyRef<'_>) -> Result<usize> {
    if [WRITE, ROWS, ROW].contains(&p.name()) {
        return Err(Error::invalid_name("property name", p.name(), "wide entities keep it for themselves"));
    }
    let size = property_size(p.name(), p.value());
    if size > BYTES {
        return Err(Error::limit(format!("bytes of the property '{}'", p.name()), BYTES, size));
    }
    Ok(size)
}
