//! Requests over HTTP/1.1, for stores whose caller sets no transport.
//!
//! A connection is driven by the request that is on it, not by a task of its own: a request wakes nobody
//! to be written or to have its answer read, which is most of what a general client costs. While a
//! connection is idle nobody looks at it; whoever takes it finds out whether it is still open.

mod connection;
mod connections;
mod idle;
mod message;
mod proxied;
mod relay;

use std::sync::Arc;

use azure_core::http::{HttpClient, Transport, Url};
use hyper_util::client::proxy::matcher::Matcher;

use self::connections::Connections;
use self::proxied::Proxied;

/// The transport to this endpoint: through a proxy, where the environment names one for it. `None` leaves it to
/// `azure_core`: where TLS is not to be had.
pub(crate) fn to(endpoint: &Url) -> Option<Transport> {
    let uri = endpoint.as_str().parse().ok()?;
    let client: Arc<dyn HttpClient> = match Matcher::from_system().intercept(&uri) {
        Some(_) => Arc::new(Proxied::new()?),
        None => Arc::new(Connections::new()?),
    };
    Some(Transport::new(client))
}
