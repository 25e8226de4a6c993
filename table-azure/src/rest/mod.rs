//! One request, its answer, and what its failure means.

mod answer;
mod client;
mod error;
mod redact;

pub(crate) use answer::{Answer, no_etag, text};
#[cfg(feature = "queue")]
pub(crate) use client::of_client;
pub(crate) use client::{Call, Client, JSON};
pub(crate) use error::{Failure, Subject};
