//! Entity group transactions: one multipart request.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions>

mod read;
mod write;

pub(crate) use read::read_answer;
#[cfg(fuzzing)]
pub(crate) use read::responses;
pub(crate) use write::GroupBody;

#[cfg(test)]
mod tests;
