//! Sends one request, reads its answer, and maps failures to errors.

mod answer;
mod bounded;
mod cause;
mod client;
mod error;
mod error_body;
mod hide_keys;
mod token;
mod tracer;

#[cfg(feature = "reqwest_rustls")]
pub(crate) use answer::PROXY;
pub(crate) use answer::{Answer, no_etag, outermost, text};
pub(crate) use bounded::bounded;
pub use client::client_error;
pub(crate) use client::{Call, Client, JSON};
#[cfg(feature = "queue")]
pub(crate) use client::{of_client, timed_out};
pub(crate) use error::{Failure, Subject, pause};
pub(crate) use hide_keys::HideKeys;
pub(crate) use token::Tokens;
pub(crate) use tracer::wrap_tracer;
