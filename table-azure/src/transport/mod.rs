//! Requests over HTTP/1.1, for stores whose caller sets no transport.
//!
//! A connection is driven by the request that is on it, not by a task of its own: a request wakes nobody
//! to be written or to have its answer read, which is most of what a general client costs. While a
//! connection is idle nobody looks at it; whoever takes it finds out whether it is still open.

mod connection;
mod connections;
mod idle;
mod message;
mod relay;

use std::sync::Arc;

use azure_core::http::{Transport, Url};
use hyper_util::client::proxy::matcher::Matcher;

use self::connections::Connections;

/// The transport to this endpoint. `None` leaves it to `azure_core`: where the environment names a
/// proxy for the endpoint, or TLS is not to be had.
pub(crate) fn to(endpoint: &Url) -> Option<Transport> {
    let uri = endpoint.as_str().parse().ok()?;
    if Matcher::from_system().intercept(&uri).is_some() {
        return None;
    }
    Some(Transport::new(Arc::new(Connections::new()?)))
}
