use std::fmt;
use std::str::FromStr;

use super::Key;
use super::chunk::{ChunkText, Span, Texts};
use crate::error::{Error, Result};

/// The version of an entity. The store assigns it, and ETags are compared exactly.
///
/// An ETag is opaque: pass it back unchanged. Local stores never reuse an ETag, also after deletes, reopening
/// and clock changes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ETag(Repr);

/// A version number has one canonical text, so comparing representations is equal to comparing texts.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Version(u64),
    Text(ChunkText),
}

/// Parses the version number in the text of a local store's ETag.
fn version(text: &str) -> Option<u64> {
    // Only the text that `Display` writes. Another text of the same number is another ETag, and must be sent back unchanged.
    let digits = text.strip_prefix("W/\"v")?.strip_suffix('"')?;
    let canonical =
        digits.len() == 16 && !digits.bytes().any(|b| b.is_ascii_uppercase() || b == b'+');
    u64::from_str_radix(digits, 16).ok().filter(|_| canonical)
}

impl ETag {
    /// Creates the ETag for a local store's version number.
    pub const fn from_version(version: u64) -> Self {
        Self(Repr::Version(version))
    }

    /// Returns the version number, if a local store created this ETag.
    pub const fn version(&self) -> Option<u64> {
        match self.0 {
            Repr::Version(version) => Some(version),
            Repr::Text(_) => None,
        }
    }

    /// Whether the text has the form of an ETag in HTTP: in quotes, after `W/` if it is weak
    /// (<https://www.rfc-editor.org/rfc/rfc9110#field.etag>).
    fn is_well_formed(&self) -> bool {
        let Repr::Text(text) = &self.0 else {
            return true;
        };
        let opaque = text.strip_prefix("W/").unwrap_or(text);
        let opaque = opaque
            .strip_prefix('"')
            .and_then(|opaque| opaque.strip_suffix('"'));
        opaque.is_some_and(|opaque| !opaque.contains(|c: char| c == '"' || c.is_control()))
    }

    /// Creates an ETag whose text is in a chunk.
    #[inline]
    pub(super) fn in_chunk(texts: &Texts, span: Span) -> Self {
        let text = ChunkText::Shared(Texts::clone(texts), span);
        Self(version(&text).map_or(Repr::Text(text), Repr::Version))
    }

    /// Converts to owned memory, if the text is shared with a page.
    pub(super) fn detached(self) -> Self {
        match self.0 {
            Repr::Version(_) => self,
            Repr::Text(text) => Self(Repr::Text(text.detached())),
        }
    }
}

impl From<&str> for ETag {
    fn from(text: &str) -> Self {
        Self(version(text).map_or_else(|| Repr::Text(ChunkText::Own(text.into())), Repr::Version))
    }
}

impl FromStr for ETag {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, std::convert::Infallible> {
        Ok(Self::from(text))
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Version(version) => write!(f, "W/\"v{version:016x}\""),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The condition of a replace, merge or delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// Only the version with this ETag.
    Exactly(ETag),
    /// Any version, if the entity exists (`If-Match: *`): the last writer wins.
    Any,
}

impl IfMatch {
    /// Refuses an ETag that is not quoted text, as the service does: no entity ever has it, so *another writer has changed the entity* would
    /// be a wrong answer.
    ///
    /// # Errors
    /// Fails if the ETag is malformed. The error names the entity with this key.
    #[doc(hidden)]
    pub fn check_form(&self, key: &Key) -> Result<()> {
        match self {
            Self::Exactly(etag) if !etag.is_well_formed() => Err(Error::invalid_argument(format!(
                "the ETag {:?} of {key} is malformed: an ETag is quoted text such as W/\"…\"; pass the ETag that was read, unchanged",
                etag.to_string()
            ))),
            _ => Ok(()),
        }
    }
}

impl From<ETag> for IfMatch {
    fn from(etag: ETag) -> Self {
        Self::Exactly(etag)
    }
}

impl From<&ETag> for IfMatch {
    fn from(etag: &ETag) -> Self {
        Self::Exactly(etag.clone())
    }
}
