use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Query;
use crate::error::{Error, Result};
use crate::model::{Entity, Key, TableName, as_text};
use crate::profile::ServiceProfile;

/// A part of a result, and the continuation token for the rest.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Page<T> {
    /// The items. A page may be empty although more items follow.
    pub items: Vec<T>,
    /// Where the next page starts; `None` at the end.
    pub continuation: Option<Continuation>,
}

impl<T> Page<T> {
    /// Converts the items.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(f).collect(),
            continuation: self.continuation,
        }
    }

    /// Converts the items, unless one conversion fails.
    ///
    /// # Errors
    /// Returns the first error of `f`.
    pub fn try_map<U>(self, f: impl FnMut(T) -> Result<U>) -> Result<Page<U>> {
        let items = self.items.into_iter().map(f).collect::<Result<_>>()?;
        Ok(Page {
            items,
            continuation: self.continuation,
        })
    }
}

/// A page with the readable entities and a list of the unreadable ones: see
/// [`TableStore::query`](crate::store::TableStore::query) and
/// [`TableQuery::readable_page`](crate::typed::TableQuery::readable_page).
#[derive(Clone, Debug, serde::Serialize)]
pub struct ReadablePage<T = Entity> {
    /// The readable entities, in the order of the page, and the continuation token.
    pub page: Page<T>,
    /// The unreadable entities.
    pub unreadable: Vec<UnreadableEntity>,
}

impl<T> ReadablePage<T> {
    /// Converts the readable items.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> ReadablePage<U> {
        ReadablePage {
            page: self.page.map(f),
            unreadable: self.unreadable,
        }
    }

    /// Returns the page, if every entity in it is readable.
    ///
    /// # Errors
    /// Returns the error of the first unreadable entity.
    pub fn into_page(self) -> Result<Page<T>> {
        match self.unreadable.into_iter().next() {
            Some(first) => Err(first.error),
            None => Ok(self.page),
        }
    }
}

impl<T> From<Page<T>> for ReadablePage<T> {
    fn from(page: Page<T>) -> Self {
        Self {
            page,
            unreadable: Vec::new(),
        }
    }
}

/// An entity that cannot be read.
#[derive(Clone, Debug, serde::Serialize)]
pub struct UnreadableEntity {
    /// The entity's key.
    pub key: Key,
    /// The reason.
    pub error: Error,
}

/// A continuation token: the position where a query continues, as opaque text that can be stored, or sent to a web client and
/// back.
///
/// A token belongs to its table (by the name, with the profile's rules for case), filter and projection. Any other query refuses
/// it. The number `top` may change from page to page. A token is not signed and contains a key: treat it as untrusted input.
///
/// Convert it to text with [`Display`](fmt::Display) and back with [`str::parse`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Continuation {
    query: u64,
    position: Position,
    /// Whether the token belongs to the secondary copy of the data. A store of one copy refuses such a token.
    of_secondary: bool,
}

/// A backend's data in a [`Continuation`]: the next key, in the service's terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// `NextPartitionKey` or `NextTableName`.
    pub first: String,
    /// `NextRowKey`, which a service may omit.
    pub second: Option<String>,
}

impl Continuation {
    /// Creates the continuation token of a query.
    pub fn new(
        profile: &ServiceProfile,
        table: &TableName,
        query: &Query,
        position: Position,
    ) -> Self {
        Self {
            query: fingerprint(&query_text(profile, table, query)),
            position,
            of_secondary: false,
        }
    }

    /// Creates the continuation token of a listing of tables.
    pub fn of_tables(prefix: Option<&str>, position: Position) -> Self {
        Self {
            query: fingerprint(&tables_text(prefix)),
            position,
            of_secondary: false,
        }
    }

    /// Returns the position, if the token belongs to this query.
    ///
    /// # Errors
    /// Fails if the token belongs to another query.
    pub fn position(
        &self,
        profile: &ServiceProfile,
        table: &TableName,
        query: &Query,
    ) -> Result<&Position> {
        self.position_for(fingerprint(&query_text(profile, table, query)))
    }

    /// Returns the position, if the token belongs to this listing.
    ///
    /// # Errors
    /// Fails if the token belongs to another listing.
    pub fn tables_position(&self, prefix: Option<&str>) -> Result<&Position> {
        self.position_for(fingerprint(&tables_text(prefix)))
    }

    /// Whether the token belongs to the secondary copy of the data.
    pub(crate) const fn is_of_secondary(&self) -> bool {
        self.of_secondary
    }

    /// Sets the copy of the data that the token belongs to.
    pub(crate) const fn with_secondary(mut self, of_secondary: bool) -> Self {
        self.of_secondary = of_secondary;
        self
    }

    /// Returns the position, if the token belongs to the query or listing with this fingerprint.
    fn position_for(&self, query: u64) -> Result<&Position> {
        if self.of_secondary {
            let reason = "it belongs to the secondary copy of the data; use it with the store that returned it";
            return Err(Error::invalid_continuation(reason));
        }
        if self.query == query {
            return Ok(&self.position);
        }
        let reason =
            "it belongs to another query; use it with the same table, filter and projection";
        Err(Error::invalid_continuation(reason))
    }
}

as_text! {
    /// As text. The text contains a key of an entity.
    Continuation, text => text.parse::<Self>();
}

/// Returns the text that identifies a query, for its fingerprint.
fn query_text(profile: &ServiceProfile, table: &TableName, query: &Query) -> String {
    // The printed filter, not the text that was parsed: two spellings of one filter share tokens.
    let filter = query
        .filter
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let select = query
        .select
        .as_ref()
        .map(|s| s.names().collect::<Vec<_>>().join(","));
    format!(
        "{}\n{filter}\n{}",
        profile.table_identity(table),
        select.unwrap_or_else(|| "*".to_owned())
    )
}

/// Returns the text that identifies a listing of tables, for its fingerprint.
fn tables_text(prefix: Option<&str>) -> String {
    // Starts with the empty name of a table, which no query has: a token of a listing does not fit a query.
    format!("\n\n{}", prefix.unwrap_or_default())
}

/// FNV-1a, 64 bits, which is stable across builds and machines. <http://www.isthe.com/chongo/tech/comp/fnv/>
fn fingerprint(text: &str) -> u64 {
    // A fingerprint finds mistakes, such as a token of another filter. It is no signature: everyone can compute it.
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The version of the format of tokens.
const VERSION: u8 = 1;
/// Flag in a token: it has the text [`Position::second`].
const HAS_SECOND: u8 = 1;
/// Flag in a token: it belongs to the secondary copy of the data.
const OF_SECONDARY: u8 = 2;

/// Prints URL-safe text: base64url of version (1 byte), fingerprint of the query (8 bytes), flags (1 byte), length of `first`
/// (4 bytes), `first` and `second`. Numbers are big-endian.
impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { first, second } = &self.position;
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.query.to_be_bytes());
        let has_second = if second.is_some() { HAS_SECOND } else { 0 };
        bytes.push(has_second | if self.of_secondary { OF_SECONDARY } else { 0 });
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
            let reason = format!(
                "{text:?} is not a continuation token; pass the text exactly as it was returned"
            );
            Error::invalid_continuation(reason)
        })
    }
}

fn decode(text: &str) -> Option<Continuation> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (version, rest) = bytes.split_first()?;
    let (query, rest) = rest.split_first_chunk()?;
    let (flags, rest) = rest.split_first()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (first, second) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let of_secondary = flags & OF_SECONDARY != 0;
    let second = match flags & !OF_SECONDARY {
        // Only the form that `Display` writes. Two texts of one token would make the comparison of tokens by text unreliable.
        0 if second.is_empty() => None,
        HAS_SECOND => Some(text(second)?),
        _ => return None,
    };
    let position = Position {
        first: text(first)?,
        second,
    };
    let query = u64::from_be_bytes(*query);
    (*version == VERSION).then_some(Continuation {
        query,
        position,
        of_secondary,
    })
}
