use std::fmt;

use super::{Error, Outcome};

/// Shows the kind, the outcome unless nothing was applied, and the answer of the service. The cause is not shown:
/// `source()` returns it.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.kind, f)?;
        match self.0.outcome {
            Outcome::NotApplied => {}
            Outcome::Applied => f.write_str(" (the operation was applied)")?,
            Outcome::Ambiguous => f.write_str(" (the operation may have been applied)")?,
        }
        let Some(answer) = &self.0.answer else { return Ok(()) };
        write!(f, " [status {}", answer.status)?;
        if let Some(code) = &answer.code {
            write!(f, ", code {code}")?;
        }
        if let Some(id) = &answer.request_id {
            write!(f, ", request {id}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("outcome", &self.0.outcome)
            .field("answer", &self.0.answer)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}
