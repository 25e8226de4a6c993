//! Pages of any query by sealed cursors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use table_core::query::{Continuation, Page};
use table_core::store::{CycleDetector, Error, ErrorKind, Result, TableStore as _};
use table_core::typed::{FromEntity, TableEntity, TableQuery};

use super::cursor::{Content, CursorError, CursorKey, hash};
use crate::clock::{Clock, SystemClock, after};
use crate::rows::query_identity;
use crate::spread::SpreadQuery;
use crate::table::{Found, Lookup};
use crate::time_slices::SliceQuery;
use crate::wide::{Wide, WideQuery};

/// A query that returns pages.
pub trait Paged: Sync {
    /// An item of a page.
    type Item: Send;

    /// Returns a text that differs for queries whose cursors must not be exchanged. It does not depend on the page size.
    ///
    /// # Errors
    /// The query is not valid.
    fn identity(&self) -> Result<String>;

    /// Reads one page.
    fn page_from<'a>(
        &'a self,
        from: Option<&'a Continuation>,
    ) -> BoxFuture<'a, Result<Page<Self::Item>>>;
}

impl<T: FromEntity, R: FromEntity> Paged for TableQuery<T, R> {
    type Item = R;

    fn identity(&self) -> Result<String> {
        let (store, table) = self.target();
        Ok(query_identity(store.profile(), table, &self.to_query()?))
    }

    fn page_from<'a>(&'a self, from: Option<&'a Continuation>) -> BoxFuture<'a, Result<Page<R>>> {
        self.page(from).boxed()
    }
}

macro_rules! paged {
    ([$($generics:tt)*] $query:ident<$($parameter:ident),+> => $item:ty) => {
        impl<$($generics)*> Paged for $query<$($parameter),+> {
            type Item = $item;

            fn identity(&self) -> Result<String> {
                $query::identity(self)
            }

            fn page_from<'a>(&'a self, from: Option<&'a Continuation>) -> BoxFuture<'a, Result<Page<$item>>> {
                self.page(from).boxed()
            }
        }
    };
}

paged!([T: TableEntity] SpreadQuery<T> => T);
paged!([T: TableEntity] WideQuery<T> => Wide<T>);
paged!([T: TableEntity] SliceQuery<T> => T);
paged!([T: TableEntity, R: Found, K: Send + Sync] Lookup<T, R, K> => R);

/// Makes the pages of queries for web clients. See the [module](super).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use table_patterns::prelude::*;
/// use table_patterns::paging::{CursorError, CursorKey, PageError, Pager};
/// # #[derive(Debug, TableEntity)]
/// # struct Product { #[partition_key] category: String, #[row_key] number: u32 }
/// # let products = Database::new(MemoryStore::new()).table::<Product>("Products")?;
/// # products.declare().await?;
/// # for number in 0..25 { products.insert(&Product { category: "tea".into(), number }).await?; }
/// let pager = Pager::new(CursorKey::new([7; 32])); // the secret of the application
/// let query = products.query().partition(Product::partition("tea")?).limit(10);
///
/// let first = pager.page(&query, "ann", None).await?; // 1 request
/// assert!(first.is_first && first.previous.is_none());
/// let second = pager.page(&query, "ann", first.next.as_deref()).await?;
/// assert_eq!(second.items[0].number, 10);
/// let back = pager.page(&query, "ann", second.previous.as_deref()).await?;
/// assert_eq!(back.items[0].number, 0);
///
/// let other = pager.page(&query, "bob", first.next.as_deref()).await;
/// assert!(matches!(other, Err(PageError::Cursor(CursorError::OfAnotherUser))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pager {
    /// The newest key is the first.
    keys: Vec<CursorKey>,
    life: Duration,
    clock: Arc<dyn Clock>,
}

/// A page for a web client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WebPage<T> {
    /// The items. Only the last page can be empty.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<String>,
    /// The cursor of the previous page; `None` at the start.
    pub previous: Option<String>,
    /// Whether this is the first page.
    pub is_first: bool,
    /// Whether this is the last page. A page that is not marked may be followed by an empty last page, because a service
    /// does not always know the end.
    pub is_last: bool,
}

impl<T> WebPage<T> {
    /// Converts the items.
    pub fn map<U>(self, convert: impl FnMut(T) -> U) -> WebPage<U> {
        let Self {
            items,
            next,
            previous,
            is_first,
            is_last,
        } = self;
        WebPage {
            items: items.into_iter().map(convert).collect(),
            next,
            previous,
            is_first,
            is_last,
        }
    }
}

/// Why there is no page.
#[derive(Clone, Debug)]
pub enum PageError {
    /// The cursor was refused. The client is to start at the first page.
    Cursor(CursorError),
    /// The query failed.
    Query(Error),
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cursor(error) => error.fmt(f),
            Self::Query(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Cursor(_) => None,
            Self::Query(error) => error.source(),
        }
    }
}

impl From<CursorError> for PageError {
    fn from(error: CursorError) -> Self {
        Self::Cursor(error)
    }
}

impl From<Error> for PageError {
    fn from(error: Error) -> Self {
        match error.kind() {
            // The cursor is genuine and of this query. But the store does not accept its token, for example
            // because another service has the table now.
            ErrorKind::InvalidContinuation(_) => Self::Cursor(CursorError::OfAnotherQuery),
            _ => Self::Query(error),
        }
    }
}

impl Pager {
    /// Makes a pager that seals cursors with this key, for one hour.
    pub fn new(key: CursorKey) -> Self {
        Self {
            keys: vec![key],
            life: Duration::from_secs(3600),
            clock: Arc::new(SystemClock),
        }
    }

    /// Also accepts the cursors that an earlier key has sealed. To change the key: give the new key to
    /// [`new`](Self::new) and the old one here, and remove the old one when its cursors have expired. If several processes
    /// serve pages, give the new key to all of them as an earlier key first.
    #[must_use]
    pub fn with_earlier_key(mut self, key: CursorKey) -> Self {
        self.keys.push(key);
        self
    }

    /// Sets how long a cursor can be used. The default is one hour.
    #[must_use]
    pub const fn valid_for(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Sets the clock for the expiry of cursors.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Reads the page that a cursor leads to, or the first page. The query's `limit` is the size of the page.
    ///
    /// `user` is any text that identifies the user or the session: only the same text can use the cursors of the page. An
    /// empty text makes cursors for everyone.
    ///
    /// Requests: see the [module](super#cost-in-requests).
    ///
    /// # Errors
    /// [`PageError::Cursor`] if the cursor is refused, without a request; [`PageError::Query`] for the errors of the query.
    pub async fn page<Q: Paged>(
        &self,
        query: &Q,
        user: &str,
        cursor: Option<&str>,
    ) -> Result<WebPage<Q::Item>, PageError> {
        let (of_user, of_query) = (hash("user", user), hash("query", &query.identity()?));
        let now = self.clock.now();
        let mut content = match cursor {
            None => Content {
                query: of_query,
                user: of_user,
                expires: 0,
                number: 1,
                starts: Vec::new(),
            },
            Some(text) => {
                let content = CursorKey::open(&self.keys, text)?;
                content.check(now, &of_user, &of_query)?;
                content
            }
        };
        let (number, page) = read_page(query, &mut content).await?;
        // Each page begins a new life, so that a reader who goes on is not sent back to the first page.
        content.expires = after(now, self.life).get();
        content.number = number;
        let next = match &page.continuation {
            None => None,
            Some(continuation) => {
                let mut next = Content {
                    number: number + 1,
                    ..content.clone()
                };
                next.add_start(number + 1, continuation.to_string());
                Some(self.seal(&next)?)
            }
        };
        let previous = match number {
            1 => None,
            _ => {
                content.number = number - 1;
                // The starts of later pages would only make the cursor longer.
                content.starts.retain(|(start, _)| *start < number);
                Some(self.seal(&content)?)
            }
        };
        Ok(WebPage {
            is_first: number == 1,
            is_last: next.is_none(),
            items: page.items,
            next,
            previous,
        })
    }

    fn seal(&self, content: &Content) -> Result<String, Error> {
        let Some(newest) = self.keys.first() else {
            return Err(Error::misuse("the pager has no key"));
        };
        newest.seal(content)
    }
}

/// Reads the page of a cursor, from the nearest known start on. Returns its number; if there are fewer pages now, the last page
/// and its number. Adds the starts of the pages on the way to the cursor.
async fn read_page<Q: Paged>(
    query: &Q,
    content: &mut Content,
) -> Result<(u32, Page<Q::Item>), PageError> {
    let (mut number, start) = content.nearest_start();
    let mut from = start.map(str::parse::<Continuation>).transpose()?;
    loop {
        let page = read_nonempty_page(query, from).await?;
        // Entities may have been deleted since the cursor was made, so that there are fewer pages.
        if number >= content.number || page.continuation.is_none() {
            return Ok((number, page));
        }
        from = page.continuation;
        number += 1;
        if let Some(start) = &from {
            content.add_start(number, start.to_string());
        }
    }
}

/// Reads the next page that is not empty, or the last.
async fn read_nonempty_page<Q: Paged>(
    query: &Q,
    mut from: Option<Continuation>,
) -> Result<Page<Q::Item>, Error> {
    let mut cycles = CycleDetector::default();
    loop {
        let page = query.page_from(from.as_ref()).await?;
        match &page.continuation {
            Some(next) if page.items.is_empty() => cycles.add(next, 0)?,
            _ => return Ok(page),
        }
        from = page.continuation;
    }
}
