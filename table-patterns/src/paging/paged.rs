//! The queries that have pages.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::query::{Continuation, Page};
use table_core::store::{Result, TableStore as _};
use table_core::typed::{FromEntity, IndexedEntity, TableEntity, TableQuery};

use crate::index::{Found, Lookup};
#[cfg(feature = "blobs")]
use crate::large::{LargeLookup, LargeQuery};
use crate::rows::query_identity;
use crate::spread::SpreadQuery;
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
    fn page_from<'a>(&'a self, from: Option<&'a Continuation>) -> BoxFuture<'a, Result<Page<Self::Item>>>;
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
    ($query:ident, $item:ty) => {
        impl<T: TableEntity> Paged for $query<T> {
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

#[cfg(feature = "blobs")]
paged!(LargeQuery, T);
paged!(SpreadQuery, T);
paged!(WideQuery, Wide<T>);
paged!(SliceQuery, T);

impl<T: IndexedEntity, R: Found, K: Send + Sync> Paged for Lookup<T, R, K> {
    type Item = R;

    fn identity(&self) -> Result<String> {
        Lookup::identity(self)
    }

    fn page_from<'a>(&'a self, from: Option<&'a Continuation>) -> BoxFuture<'a, Result<Page<R>>> {
        self.page(from).boxed()
    }
}

#[cfg(feature = "blobs")]
impl<T: IndexedEntity, K: Send + Sync> Paged for LargeLookup<T, K> {
    type Item = T;

    fn identity(&self) -> Result<String> {
        LargeLookup::identity(self)
    }

    fn page_from<'a>(&'a self, from: Option<&'a Continuation>) -> BoxFuture<'a, Result<Page<T>>> {
        self.page(from).boxed()
    }
}
