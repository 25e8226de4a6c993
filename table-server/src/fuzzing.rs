//! Entry points for fuzz targets into code that is not public.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::Request;
use table_core::memory::MemoryStore;
use table_core::model::TableName;
use table_core::store::{ServiceProfile, TableStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::account::{Account, EMULATOR_ACCOUNT};
use crate::address::Parameters;
use crate::connection::{Phase, serve};
use crate::limits::Limits;
use crate::service::{OptionalAddresses, Peer, Service};
use crate::tenant::Tenants;
use crate::wire::{JsonFormat, Metadata, entity_document, read_fields};
use crate::{authorize, multipart};

/// A server of the emulator's account in memory, with the table `abc`, without a network.
#[derive(Clone, Debug)]
pub struct Target(Arc<Service>);

const PEER: Peer = Peer {
    ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
    secure: false,
};

impl Target {
    /// Starts with an empty table.
    pub fn new() -> impl Future<Output = Self> + Send {
        async {
            let store = MemoryStore::with_profile(ServiceProfile::SERVED);
            store.create_table(&table()).await.expect("a new table");
            let mut tenants = Tenants::default();
            tenants.add(Account::emulator(), Arc::new(store));
            let addresses = OptionalAddresses {
                metrics: true,
                explorer: true,
            };
            Self(Arc::new(Service::new(
                tenants,
                &Limits::default(),
                addresses,
                None,
            )))
        }
    }

    /// Serves one connection until the client closes it.
    pub fn connection<S>(self, stream: S) -> impl Future<Output = ()> + Send
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        async move {
            let (_sender, phase) = watch::channel(Phase::Serve);
            serve(stream, PEER, self.0, Limits::default(), phase).await;
        }
    }

    /// Answers a request of the account's owner, without its authorization. Returns status and body; `None` if `head` is no request line with
    /// headers.
    pub fn request(
        &self,
        head: &str,
        body: &[u8],
    ) -> impl Future<Output = Option<(u16, Vec<u8>)>> + Send {
        let (head, body, service) = (head_of(head), body.to_vec(), Arc::clone(&self.0));
        async move {
            let (head, ()) = head?.into_parts();
            let answer = service.answer_owner(&head, PEER, &body).await;
            Some((answer.status.as_u16(), answer.body.to_vec()))
        }
    }
}

fn table() -> TableName {
    TableName::new("abc").expect("a legal name")
}

/// Reads `METHOD PATH`, and a header on each further line.
fn head_of(text: &str) -> Option<Request<()>> {
    let mut lines = text.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder()
        .method(method)
        .uri(format!("/{EMULATOR_ACCOUNT}/{path}"));
    request = request.header("host", "127.0.0.1:10002");
    for line in lines.take(50) {
        let (name, value) = line.split_once(':')?;
        request = request.header(name.trim(), value.trim());
    }
    request.body(()).ok()
}

/// Returns the number of requests in the body of a group; `None` if it is malformed.
pub fn group(content_type: &str, body: &str) -> Option<usize> {
    match multipart::read(content_type, body).ok()? {
        multipart::Group::Changes(parts) => Some(parts.len()),
        multipart::Group::Read(_) => Some(1),
    }
}

/// Reads the JSON of an entity and returns it as JSON with all metadata; `None` if it is refused.
pub fn entity(json: &[u8]) -> Option<Vec<u8>> {
    let fields = read_fields(json).ok()?;
    let key = table_core::model::Key::new(fields.partition?, fields.row?).ok()?;
    let entity = table_core::model::Entity::from_parts(key, fields.properties);
    let root = "http://127.0.0.1:10002/devstoreaccount1/";
    let format = JsonFormat {
        level: Metadata::Full,
        account: EMULATOR_ACCOUNT,
        root,
        select: None,
    };
    Some(entity_document(format, &table(), &entity, None))
}

/// Returns the string to sign of the signature in a query; `None` if the signature is refused.
pub fn signature(query: &str) -> Option<String> {
    authorize::string_to_sign(&Parameters::parse(query).ok()?, EMULATOR_ACCOUNT)
}
