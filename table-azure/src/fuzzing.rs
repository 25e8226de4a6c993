//! What fuzz targets reach of the parsers that are not public.

use table_core::{Error, Result};

use crate::auth::Connection;
use crate::rest::{Failure, Subject};

/// How many responses the answer to a group holds; `None` if it cannot be read.
pub fn group_answer(text: &str, boundary: &str) -> Option<usize> {
    crate::batch::responses(text, boundary).map(|responses| responses.len())
}

/// The error of a refusal with this body.
pub fn error_body(status: u16, body: &[u8]) -> Error {
    let mut failure = Failure::of_body(status, body);
    failure.take_index();
    failure.into_error(&Subject::Service, true)
}

/// What a connection string says, as it is shown.
///
/// # Errors
/// A part is malformed or missing.
pub fn connection_string(text: &str, service: &'static str) -> Result<String> {
    Connection::parse(text, service).map(|connection| format!("{connection:?}"))
}
