//! Stored access policies, properties and statistics of the Table service, and the tenant of an account.

mod access;
mod metrics;
mod properties;
mod statistics;
mod tenant;

pub use access::StoredPolicy;
pub use metrics::{Logging, Metrics, Retention};
pub use properties::{CorsRule, ServiceProperties};
pub use statistics::{GeoReplication, ReplicationStatus};
pub use tenant::{Tenant, discover_tenant};

use azure_core::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use table_core::store::ErrorKind;
use table_core::{Error, Result};

use crate::rest::{Answer, Call, Client, Subject, outermost};

const XML: &str = "application/xml";

impl Client {
    /// Fails on Cosmos DB, which has none of these calls.
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

/// Parses an answer. Its root element must have the expected name: every field is optional, so any other XML,
/// such as a page of a proxy, would parse as "nothing is set".
fn from_xml<T: DeserializeOwned>(answer: &Answer, root: &str) -> Result<T> {
    let unreadable = || answer.explain(ErrorKind::Service("the answer is not valid XML".to_owned()).into());
    if outermost(&answer.body) != Some(root.as_bytes()) {
        return Err(unreadable().with_source(format!("the root element is not {root}")));
    }
    azure_core::xml::from_xml(&answer.body).map_err(|e| unreadable().with_source(e))
}

fn to_xml<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let xml = azure_core::xml::to_xml(value);
    xml.map(Into::into)
        .map_err(|e| Error::invalid_request("the value cannot be written as XML").with_source(e))
}
