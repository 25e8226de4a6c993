use std::fmt;
use std::str::FromStr;

/// The version of an entity, set by the store and compared exactly.
///
/// Opaque: hand it back as it came. Local stores never use one twice, whatever is deleted,
/// reopened or done to the clock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ETag(Repr);

/// A version number prints canonically and parses back to itself, so equality of the
/// representations is equality of the texts.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Version(u64),
    Text(Box<str>),
}

impl ETag {
    /// The ETag of a local store's version counter.
    pub const fn from_version(version: u64) -> Self {
        Self(Repr::Version(version))
    }

    /// The version counter, if a local store made this ETag.
    pub const fn version(&self) -> Option<u64> {
        match self.0 {
            Repr::Version(version) => Some(version),
            Repr::Text(_) => None,
        }
    }
}

impl From<&str> for ETag {
    fn from(text: &str) -> Self {
        let version = text
            .strip_prefix("W/\"v")
            .and_then(|t| t.strip_suffix('"'))
            .filter(|t| t.len() == 16 && !t.bytes().any(|b| b.is_ascii_uppercase() || b == b'+'))
            .and_then(|t| u64::from_str_radix(t, 16).ok());
        Self(version.map_or_else(|| Repr::Text(text.into()), Repr::Version))
    }
}

impl FromStr for ETag {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
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
    /// Only the version that was read.
    Exactly(ETag),
    /// Any version, as long as the entity exists (`If-Match: *`): the last writer wins.
    Any,
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
