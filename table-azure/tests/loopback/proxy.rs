//! Proxies that the environment names. The environment of a process cannot be changed safely while other tests run, so each test runs itself
//! again as a child process.

use std::process::Command;

use azure_core::http::{ClientOptions, Context, Method, Pipeline, Request};
use table_azure::{AzureTableStore, AzureTableStoreOptions, ReadFrom, SharedKey};
use table_core::store::{Error, Operation, Outcome, TableStore};

use super::server::{Answer, Server, answer};
use super::{KEY, entity, key, table};

/// Set in the child process.
const CHILD: &str = "TABLE_AZURE_CHILD";
const VARIABLES: [&str; 8] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
];

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the test with this name again, in a process whose environment has this proxy.
async fn run_again(test: &'static str, proxy: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1");
    for name in VARIABLES {
        command.env_remove(name);
    }
    // One variable for all schemes, and one for plain http.
    command.env("ALL_PROXY", proxy).env("HTTP_PROXY", proxy);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{out}{err}"
    );
}

fn found() -> Answer {
    answer(
        "200 OK",
        &[],
        r#"{"PartitionKey":"o'x","RowKey":"a b","N":5}"#,
    )
}

/// A store at another machine, whose name does not resolve.
fn elsewhere() -> AzureTableStore {
    let mut options = AzureTableStoreOptions::default();
    options.plain_http_hosts.push("tables.invalid".to_owned());
    let key = SharedKey::new("acc", KEY).unwrap();
    AzureTableStore::with_shared_key("http://tables.invalid:10002/acc", key, Some(options)).unwrap()
}

async fn insert_elsewhere() -> Error {
    let operation = Operation::Insert(entity());
    elsewhere().write(&table(), operation).await.unwrap_err()
}

#[tokio::test]
async fn requests_to_this_machine_use_no_proxy() {
    if !is_child() {
        let proxy = Server::start([found()]).await;
        run_again(
            "proxy::requests_to_this_machine_use_no_proxy",
            &proxy.address.replace("/acc", ""),
        )
        .await;
        assert_eq!(proxy.connections(), 0, "{:?}", proxy.asked());
        return;
    }
    let server = Server::start([found()]).await;
    for address in [
        server.address.clone(),
        server.address.replace("127.0.0.1", "localhost"),
    ] {
        let key_of_account = SharedKey::new("acc", KEY).unwrap();
        let store = AzureTableStore::with_shared_key(&address, key_of_account, None).unwrap();
        store
            .get(&table(), &key(), None)
            .await
            .unwrap()
            .expect("the server's own answer");
    }
    let transport = table_azure::transport().expect("TLS");
    let options = ClientOptions {
        transport: Some(transport),
        ..ClientOptions::default()
    };
    let pipeline = Pipeline::new(None, None, options, Vec::new(), Vec::new(), None);
    let mut request = Request::new(server.address.parse().unwrap(), Method::Get);
    let received = pipeline
        .send(&Context::new(), &mut request, None)
        .await
        .unwrap();
    assert_eq!(u16::from(received.status()), 200);
    assert_eq!(server.asked().len(), 3);
}

/// The endpoint for reads has a proxy, and the one for writes is this machine.
#[tokio::test]
async fn each_endpoint_of_an_account_has_its_own_proxy() {
    if !is_child() {
        let proxy = Server::start([found()]).await;
        run_again(
            "proxy::each_endpoint_of_an_account_has_its_own_proxy",
            &proxy.address.replace("/acc", ""),
        )
        .await;
        let asked = proxy.only();
        assert!(
            asked
                .line
                .starts_with("GET http://tables.invalid:10002/acc-2/Orders("),
            "{}",
            asked.line
        );
        return;
    }
    let server = Server::start([answer("204 No Content", &[("etag", "W/\"v\"")], "")]).await;
    let mut options = AzureTableStoreOptions::default();
    options.read_from = ReadFrom::Secondary;
    options.secondary_endpoint = Some("http://tables.invalid:10002/acc-2".to_owned());
    options.plain_http_hosts.push("tables.invalid".to_owned());
    let key_of_account = SharedKey::new("acc", KEY).unwrap();
    let store =
        AzureTableStore::with_shared_key(&server.address, key_of_account, Some(options)).unwrap();
    store
        .get(&table(), &key(), None)
        .await
        .unwrap()
        .expect("the answer of the proxy");
    store
        .write(&table(), Operation::Insert(entity()))
        .await
        .unwrap();
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn an_error_names_the_proxy() {
    if !is_child() {
        // Nothing listens at this address.
        run_again(
            "proxy::an_error_names_the_proxy",
            "http://user:se7en@127.0.0.1:1",
        )
        .await;
        return;
    }
    let error = insert_elsewhere().await;
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("cannot connect to tables.invalid:10002 through the proxy 127.0.0.1:1"),
        "{text}"
    );
    assert!(!text.contains("se7en"), "{text}");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
}

#[tokio::test]
async fn an_answer_of_the_proxy_names_it() {
    if !is_child() {
        // A server can send the header that names the proxy: it is not believed.
        let headers = [
            ("content-type", "text/html"),
            ("x-table-through-proxy", "forged.example"),
        ];
        let answers = [
            answer("502 Bad Gateway", &headers, "<html>"),
            answer("200 OK", &headers, "<html>"),
        ];
        let proxy = Server::start(answers).await;
        run_again(
            "proxy::an_answer_of_the_proxy_names_it",
            &proxy.address.replace("/acc", ""),
        )
        .await;
        assert_eq!(proxy.asked().len(), 2);
        return;
    }
    let proxy = std::env::var("ALL_PROXY").unwrap().replace("http://", "");
    for _ in 0..2 {
        let error = insert_elsewhere().await;
        let text = error.to_string();
        assert!(
            text.contains(&format!("through the proxy {proxy}")) && !text.contains("forged"),
            "{text}"
        );
        assert_eq!(error.outcome(), Outcome::Ambiguous, "{text}");
    }
}

/// An answer without a proxy names none, whatever the server sends.
#[tokio::test]
async fn a_server_cannot_name_a_proxy() {
    let headers = [("x-table-through-proxy", "forged.example")];
    let server = Server::start([answer("418 I'm a teapot", &headers, "")]).await;
    let text = super::store(&server)
        .get(&table(), &key(), None)
        .await
        .unwrap_err()
        .to_string();
    assert!(!text.contains("forged"), "{text}");
}

#[cfg(feature = "queue")]
#[tokio::test]
async fn a_queue_on_this_machine_uses_no_proxy() {
    use table_azure::queue::AzureWorkQueue;
    use table_core::queue::WorkQueue as _;

    if !is_child() {
        let proxy = Server::start([found()]).await;
        run_again(
            "proxy::a_queue_on_this_machine_uses_no_proxy",
            &proxy.address.replace("/acc", ""),
        )
        .await;
        assert_eq!(proxy.connections(), 0, "{:?}", proxy.asked());
        return;
    }
    let body = "<?xml version=\"1.0\"?><QueueMessagesList />";
    let server = Server::start([answer(
        "200 OK",
        &[("content-type", "application/xml")],
        body,
    )])
    .await;
    let key_of_account = SharedKey::new("acc", KEY).unwrap();
    let queue =
        AzureWorkQueue::with_shared_key(&format!("{}/work", server.address), key_of_account, None)
            .unwrap();
    assert!(
        queue
            .receive(1, std::time::Duration::from_secs(30))
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(server.asked().len(), 1);
}
