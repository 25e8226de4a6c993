//! Entry points for fuzz targets into parsers that are not public.

use table_core::{Error, Result};

use crate::auth::Connection;
use crate::rest::{Failure, Subject};

/// Returns the number of responses in the answer to a group; `None` if the answer is malformed.
pub fn group_answer(text: &str, boundary: &str) -> Option<usize> {
    crate::batch::responses(text, boundary).map(|responses| responses.len())
}

/// Returns the error that this body of a refusal becomes.
pub fn error_body(status: u16, body: &[u8]) -> Error {
    let mut failure = Failure::of_body(status, body);
    failure.take_index();
    failure.into_error(&Subject::Service, true)
}

/// Parses a connection string and returns its `Debug` text.
///
/// # Errors
/// Fails if a part is malformed or missing.
pub fn connection_string(text: &str, service: &'static str) -> Result<String> {
    Connection::parse(text, service).map(|connection| format!("{connection:?}"))
}
