//! Format v2, as `docs/encryption-format.md` specifies it. Pure functions: no clock, no randomness, no I/O.

mod bytes;
mod derive;
mod header;
mod open;
mod plain;
mod seal;
#[cfg(test)]
mod tamper;
#[cfg(test)]
mod tests;

pub(crate) use bytes::{Reader, push_wrapping, read_wrapping};
pub(crate) use derive::{Scope, WriteKeys, expand, matches};
pub(crate) use header::{HEADER, Header};
pub(crate) use open::open;
pub(crate) use plain::encode as encode_value;
pub(crate) use seal::seal;
