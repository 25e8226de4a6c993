//! What every pattern needs to write rows: clocks, retries after conflicts, permission by the manifest, encryption rules,
//! upgrades.

pub mod clock;
pub(crate) mod encrypted;
pub(crate) mod entity_errors;
pub(crate) mod fresh_id;
pub(crate) mod plain;
#[cfg(test)]
mod tests;
pub(crate) mod took_effect;
pub(crate) mod upgrade;

/// The number of bytes of properties at which a window ends.
pub(crate) const WINDOW_BYTES: usize = 16 * 1024 * 1024;
