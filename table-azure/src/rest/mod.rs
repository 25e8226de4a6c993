//! One request, its answer, and what its failure means.

mod answer;
mod body;
mod client;
mod error;
mod redact;

pub(crate) use answer::{Answer, no_etag, text};
pub(crate) use client::{Call, Client, JSON};
#[cfg(feature = "queue")]
pub(crate) use client::{of_client, timed_out};
pub(crate) use error::{Failure, Subject, pause};
