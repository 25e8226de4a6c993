use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Query;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Entity, Key, TableName};
use crate::profile::ServiceProfile;

/// Part of an answer, and where it goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The items, possibly none although more follow.
    pub items: Vec<T>,
    /// Where the next page starts; `None` at the end.
    pub continuation: Option<Continuation>,
}

impl<T> Page<T> {
    /// The same page of other items.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(f).collect(), continuation: self.continuation }
    }

    /// The same page of other items, unless one cannot be converted.
    ///
    /// # Errors
    /// The first that `f` returns.
    pub fn try_map<U>(self, f: impl FnMut(T) -> Result<U>) -> Result<Page<U>> {
        let items = self.items.into_iter().map(f).collect::<Result<_>>()?;
        Ok(Page { items, continuation: self.continuation })
    }
}

/// A page of the entities that can be read, with a list of those that cannot:
/// [`TableStore::query_readable`](crate::store::TableStore::query_readable).
#[derive(Debug)]
pub struct ReadablePage {
    /// The entities that can be read, in their order, and where the query goes on.
    pub page: Page<Entity>,
    /// The entities that cannot.
    pub unreadable: Vec<UnreadableEntity>,
}

impl From<Page<Entity>> for ReadablePage {
    fn from(page: Page<Entity>) -> Self {
        Self { page, unreadable: Vec::new() }
    }
}

/// An entity that cannot be read.
#[derive(Clone, Debug)]
pub struct UnreadableEntity {
    /// Its key.
    pub key: Key,
    /// Why.
    pub error: Error,
}

/// Where a query goes on: opaque text that can be stored, or handed to a web client and taken back.
///
/// Bound to its table (by the name that the service's profile tells apart), filter and projection (not to `top`, so
/// that the page size may change): with another query it is refused. It is not signed and reveals a key: treat it as
/// input.
///
/// Print it with [`Display`](fmt::Display), read it with [`str::parse`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Continuation {
    query: u64,
    position: Position,
}

/// What a backend keeps in a [`Continuation`]: the next key, as the service names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// `NextPartitionKey` or `NextTableName`.
    pub first: String,
    /// `NextRowKey`, which a service may leave out.
    pub second: Option<String>,
}

impl Continuation {
    /// Binds a position to a query.
    pub fn new(profile: &ServiceProfile, table: &TableName, query: &Query, position: Position) -> Self {
        Self { query: fingerprint(&query_text(profile, table, query)), position }
    }

    /// Binds a position to a listing of tables.
    pub fn of_tables(prefix: Option<&str>, position: Position) -> Self {
        Self { query: fingerprint(&tables_text(prefix)), position }
    }

    /// The position, if this continuation belongs to the query.
    ///
    /// # Errors
    /// It belongs to another one.
    pub fn position(&self, profile: &ServiceProfile, table: &TableName, query: &Query) -> Result<&Position> {
        self.check(fingerprint(&query_text(profile, table, query)))
    }

    /// The position, if this continuation belongs to the listing.
    ///
    /// # Errors
    /// It belongs to another one.
    pub fn tables_position(&self, prefix: Option<&str>) -> Result<&Position> {
        self.check(fingerprint(&tables_text(prefix)))
    }

    fn check(&self, query: u64) -> Result<&Position> {
        if self.query == query {
            return Ok(&self.position);
        }
        let reason = "it belongs to another query; use it with the table, filter and projection it came from";
        Err(ErrorKind::InvalidContinuation(reason.to_owned()).into())
    }
}

fn query_text(profile: &ServiceProfile, table: &TableName, query: &Query) -> String {
    let filter = query.filter.as_ref().map(ToString::to_string).unwrap_or_default();
    let select = query.select.as_ref().map(|s| s.names().collect::<Vec<_>>().join(","));
    format!("{}\n{filter}\n{}", profile.table_identity(table), select.unwrap_or_else(|| "*".to_owned()))
}

fn tables_text(prefix: Option<&str>) -> String {
    format!("\n\n{}", prefix.unwrap_or_default())
}

/// FNV-1a, 64 bits: stable across builds and machines. <http://www.isthe.com/chongo/tech/comp/fnv/>
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

const VERSION: u8 = 1;

/// URL-safe text: base64url of `version, query fingerprint, has second, length of first, texts`.
impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { first, second } = &self.position;
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.query.to_be_bytes());
        bytes.push(u8::from(second.is_some()));
        bytes.extend_from_slice(&(first.len() as u32).to_be_bytes());
        bytes.extend_from_slice(first.as_bytes());
        bytes.extend_from_slice(second.as_deref().unwrap_or_default().as_bytes());
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Continuation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        decode(text).ok_or_else(|| {
            let reason = format!("{text:?} is not one; pass the text exactly as it was returned");
            ErrorKind::InvalidContinuation(reason).into()
        })
    }
}

fn decode(text: &str) -> Option<Continuation> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (version, rest) = bytes.split_first()?;
    let (query, rest) = rest.split_first_chunk()?;
    let (has_second, rest) = rest.split_first()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (first, second) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let second = match has_second {
        0 if second.is_empty() => None,
        1 => Some(text(second)?),
        _ => return None,
    };
    let position = Position { first: text(first)?, second };
    (*version == VERSION).then(|| Continuation { query: u64::from_be_bytes(*query), position })
}
