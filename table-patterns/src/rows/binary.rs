//! Bytes of any length in a row: as binary properties with numbered names, each as long as a property may be.

use table_core::model::{Entity, ValueRef};
use table_core::store::limits;

/// Sets bytes as the properties `{name}0`, `{name}1`, ….
pub(crate) fn set_bytes(row: &mut Entity, name: &str, bytes: &[u8]) {
    for (n, part) in bytes.chunks(limits::BINARY_BYTES).enumerate() {
        row.properties_mut().set(&format!("{name}{n}"), part);
    }
}

/// The bytes that [`set_bytes`] has set; empty if there are none.
pub(crate) fn get_bytes(row: &Entity, name: &str) -> Vec<u8> {
    let parts = (0..).map_while(|n| match row.get(&format!("{name}{n}")) {
        Some(ValueRef::Binary(part)) => Some(part),
        _ => None,
    });
    parts.flatten().copied().collect()
}
