//! What the service has beside tables: stored access policies, properties, statistics.

mod access;
mod metrics;
mod properties;
mod statistics;

pub use access::StoredPolicy;
pub use metrics::{Logging, Metrics, Retention};
pub use properties::{CorsRule, ServiceProperties};
pub use statistics::{GeoReplication, ReplicationStatus};

use azure_core::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use table_core::store::ErrorKind;
use table_core::{Error, Result};

use crate::rest::{Answer, Call, Client, Subject, outermost};

const XML: &str = "application/xml";

impl Client {
    /// Cosmos DB has none of this.
    fn only_storage(&self, what: &str) -> Result<()> {
        if !self.endpoint.cosmos {
            return Ok(());
        }
        Err(Error::unsupported(self.profile.name, what))
    }
}

fn get<'a>(name: &'static str, subject: Subject<'a>, url: azure_core::http::Url) -> Call<'a> {
    Call::named(name, subject, Method::Get, url, &[200]).header("accept", XML)
}

fn put<'a>(
    name: &'static str,
    subject: Subject<'a>,
    url: azure_core::http::Url,
    done: &'static [u16],
    body: Vec<u8>,
) -> Call<'a> {
    Call::named(name, subject, Method::Put, url, done).header("accept", XML).body(XML, body)
}

/// Reads an answer. Its outermost element must be the named one: every field may be missing, so that any other
/// XML, such as a page of a server on the way, would read as nothing set.
fn from_xml<T: DeserializeOwned>(answer: &Answer, root: &str) -> Result<T> {
    let unreadable = || answer.explain(ErrorKind::Service("XML that cannot be read".to_owned()).into());
    if outermost(&answer.body) != Some(root.as_bytes()) {
        return Err(unreadable().with_source(format!("it is no {root}")));
    }
    azure_core::xml::from_xml(&answer.body).map_err(|e| unreadable().with_source(e))
}

fn to_xml<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let xml = azure_core::xml::to_xml(value);
    xml.map(Into::into).map_err(|e| Error::invalid_request("this cannot be written as XML").with_source(e))
}
