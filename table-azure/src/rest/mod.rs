//! Sends one request, reads its answer, and maps failures to errors.

mod answer;
mod body;
mod client;
mod error;
mod redact;
mod token;
mod tracer;

pub(crate) use answer::{Answer, no_etag, outermost, text};
pub(crate) use body::bounded;
pub use client::client_error;
pub(crate) use client::{Call, Client, JSON};
#[cfg(feature = "queue")]
pub(crate) use client::{of_client, timed_out};
pub(crate) use error::{Failure, Subject, pause};
pub(crate) use redact::HideKeys;
pub(crate) use token::Tokens;
pub(crate) use tracer::quiet;
