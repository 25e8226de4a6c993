//! A server for tests.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use table_core::memory::MemoryStore;
use table_core::store::{ServiceProfile, TableStore};
use tokio::sync::oneshot;

use crate::account::{Account, EMULATOR_ACCOUNT};
use crate::server::Server;
use crate::start::StartError;

/// An empty in-memory server on a free port of this machine, with the emulator's account. It stops when
/// dropped.
///
/// ```
/// use table_core::store::TableStore as _;
/// use table_server::TestServer;
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start().await;
/// let client = table_azure::AzureTableStore::from_connection_string(&server.connection_string(), None)?;
/// client.create_table(&"Orders".parse()?).await?;
/// assert_eq!(server.store().list_tables(None, None).await?.items, ["Orders".parse()?]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestServer {
    store: Arc<dyn TableStore>,
    endpoint: String,
    connection_string: String,
    _runs: Runs,
}

/// Where the server runs.
#[derive(Debug)]
enum Runs {
    /// On the caller's runtime.
    Runtime(#[expect(dead_code, reason = "held until the test ends")] Server),
    /// On a separate thread.
    Thread {
        stop: Option<oneshot::Sender<()>>,
        thread: Option<JoinHandle<()>>,
    },
}

impl TestServer {
    /// Starts on the caller's runtime.
    ///
    /// # Panics
    /// Panics if this machine has no free port.
    pub async fn start() -> Self {
        Self::serve(MemoryStore::with_profile(ServiceProfile::SERVED)).await
    }

    /// Starts with a store, for example one with faults, on the caller's runtime.
    ///
    /// # Panics
    /// Panics if this machine has no free port.
    pub async fn serve<S: TableStore>(store: S) -> Self {
        let store: Arc<dyn TableStore> = Arc::new(store);
        let server = listen(Arc::clone(&store))
            .await
            .expect("a free port on this machine");
        Self::from_parts(
            store,
            &server.endpoint(EMULATOR_ACCOUNT),
            server.connection_string(EMULATOR_ACCOUNT),
            Runs::Runtime(server),
        )
    }

    /// Starts on a separate thread, for tests without a runtime or with a runtime per test.
    ///
    /// # Panics
    /// Panics if this machine has no free port or thread.
    pub fn start_on_thread() -> Self {
        let store: Arc<dyn TableStore> =
            Arc::new(MemoryStore::with_profile(ServiceProfile::SERVED));
        let (served, (started, starts)) = (Arc::clone(&store), mpsc::channel());
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let server = listen(served).await.expect("a free port on this machine");
                let addresses = (
                    server.endpoint(EMULATOR_ACCOUNT),
                    server.connection_string(EMULATOR_ACCOUNT),
                );
                let _ = started.send(addresses);
                let _ = stopped.await;
            });
        });
        let (endpoint, connection_string) = starts.recv().expect("a server");
        let runs = Runs::Thread {
            stop: Some(stop),
            thread: Some(thread),
        };
        Self::from_parts(store, &endpoint, connection_string, runs)
    }

    fn from_parts(
        store: Arc<dyn TableStore>,
        endpoint: &str,
        connection_string: Option<String>,
        runs: Runs,
    ) -> Self {
        let connection_string = connection_string.expect("the emulator's account");
        Self {
            store,
            endpoint: endpoint.to_owned(),
            connection_string,
            _runs: runs,
        }
    }

    /// Returns the connection string, for clients of every language.
    pub fn connection_string(&self) -> String {
        self.connection_string.clone()
    }

    /// Returns the URL of the account.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the store, for checking the effects of clients.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }
}

async fn listen(store: Arc<dyn TableStore>) -> Result<Server, StartError> {
    let builder = Server::builder().account(Account::emulator(), store);
    builder
        .listen((Ipv4Addr::LOCALHOST, 0).into())
        .start()
        .await
}

impl Drop for Runs {
    fn drop(&mut self) {
        if let Self::Thread { stop, thread } = self {
            drop(stop.take());
            let _ = thread.take().map(JoinHandle::join);
        }
    }
}
