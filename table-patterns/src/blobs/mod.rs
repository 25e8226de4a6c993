//! What patterns with content in blobs share: names, streams in and out, errors.

mod error;
#[cfg(test)]
pub(crate) mod faulty;
mod name;
mod read;
mod write;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use table_core::store::Result;

pub(crate) use error::blob_error;
pub(crate) use name::{segment, unescape};
pub(crate) use read::{open, start, verified};
pub(crate) use write::{Stored, delete, is_clock, put, store_time};

/// Content in pieces, so that it need not be in memory as a whole.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;
