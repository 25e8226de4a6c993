//! Pages in browsers of this machine: with the emulator's key, which is published, a page of any site can sign requests.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::query::Query;
use table_core::store::TableStore;
use table_server::{Account, EMULATOR_ACCOUNT, EMULATOR_KEY, Server, ServerBuilder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Ask, Client, Reply, read, signed};

async fn start(account: Account, with: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Server {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    store.create_table(&"abc".parse().unwrap()).await.unwrap();
    let builder = with(Server::builder().account(account, store));
    builder
        .listen("127.0.0.1:0".parse().unwrap())
        .start()
        .await
        .unwrap()
}

/// Sends a signed request to a host.
async fn to_host(server: &Server, host: &str, ask: Ask) -> Reply {
    let ask = signed(EMULATOR_ACCOUNT, ask);
    let headers: String = ask
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request = format!(
        "{} /{EMULATOR_ACCOUNT}/{} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{}",
        ask.method,
        ask.path,
        ask.body.len(),
        ask.body
    );
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    read(&answer).unwrap()
}

/// Two headers of a name may be read differently by a proxy and by the server.
#[tokio::test]
async fn a_request_with_two_hosts_or_origins_is_refused() {
    let server = start(Account::emulator(), |builder| builder).await;
    let list = || Ask::new("GET", "abc()");
    let own = "http://127.0.0.1:10002";
    for ask in [
        list().with("Host", "127.0.0.1:10002"),
        list().with("Host", "evil.example"),
        list().with("Origin", own).with("Origin", own),
        list()
            .with("Origin", own)
            .with("Origin", "http://evil.example"),
        list()
            .with("Sec-Fetch-Site", "none")
            .with("Sec-Fetch-Site", "cross-site"),
        list().with("Authorization", "SharedKeyLite a:b"),
    ] {
        let reply = to_host(&server, "127.0.0.1:10002", ask).await;
        assert_eq!(reply.refusal(), (400, "InvalidHeaderValue"), "{reply:?}");
    }
}

/// A site can give its own name the address 127.0.0.1; its page then sends this name.
#[tokio::test]
async fn the_emulators_account_answers_to_names_of_this_machine() {
    let server = start(Account::emulator(), |builder| {
        builder.host("tables.example")
    })
    .await;
    let list = || Ask::new("GET", "abc()");
    for host in [
        "127.0.0.1",
        "127.0.0.1:10002",
        "localhost:80",
        "[::1]:1",
        "a.localhost",
        "Tables.Example:10002",
    ] {
        assert_eq!(to_host(&server, host, list()).await.status, 200, "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:10002",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "other.tables.example",
    ] {
        assert_eq!(
            to_host(&server, host, list()).await.refusal(),
            (403, "AuthorizationFailure"),
            "{host}"
        );
    }
    let preflight = Ask::new("OPTIONS", "abc").with("Origin", "http://evil.example");
    let preflight = preflight.with("Access-Control-Request-Method", "PUT");
    assert_eq!(
        to_host(&server, "evil.example", preflight).await.refusal(),
        (403, "AuthorizationFailure")
    );
    // The key is not the emulator's, so no page can sign with it.
    let mine = Account::new(EMULATOR_ACCOUNT, "bXktb3du").unwrap();
    let mine = start(mine, |builder| builder).await;
    assert_eq!(
        to_host(&mine, "evil.example", list()).await.refusal(),
        (403, "AuthenticationFailed")
    );
    // An account of another name can have the emulator's key too.
    let renamed = start(Account::new("mine", EMULATOR_KEY).unwrap(), |builder| {
        builder
    })
    .await;
    let mut stream = TcpStream::connect(renamed.address()).await.unwrap();
    stream
        .write_all(b"GET /mine/abc() HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(
        read(&answer).unwrap().refusal(),
        (403, "AuthorizationFailure")
    );
}

fn insert(row: &str) -> Ask {
    Ask {
        body: format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}"),
        ..Ask::new("POST", "abc")
    }
}

/// A POST without a content type needs no preflight request: browsers send it for every page.
#[tokio::test]
async fn the_emulators_account_refuses_pages_of_other_sites() {
    let client = Client::with_table().await;
    let refused: &[&[(&str, &str)]] = &[
        &[
            ("Origin", "https://evil.example"),
            ("Sec-Fetch-Site", "cross-site"),
        ],
        &[("Origin", "https://evil.example")],
        &[("Origin", "null")],
        &[
            ("Origin", "http://127.0.0.1:3000"),
            ("Sec-Fetch-Site", "same-site"),
        ],
        &[
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", "no-cors"),
        ],
        &[
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", "navigate"),
        ],
    ];
    for headers in refused {
        let with = |ask: Ask| {
            headers
                .iter()
                .fold(ask, |ask, (name, value)| ask.with(name, *value))
        };
        for ask in [
            insert("1"),
            Ask::new("GET", "abc()"),
            Ask::new("DELETE", "Tables('abc')"),
        ] {
            let reply = client.owner(with(ask)).await;
            assert_eq!(
                reply.refusal(),
                (403, "AuthorizationFailure"),
                "{headers:?}"
            );
        }
    }
    let own = format!("http://{}", client.address);
    for (row, headers) in [
        ("2", vec![]),
        (
            "3",
            vec![("Origin", &*own), ("Sec-Fetch-Site", "same-origin")],
        ),
        ("4", vec![("Sec-Fetch-Site", "none")]),
    ] {
        let ask = headers
            .iter()
            .fold(insert(row), |ask, (name, value)| ask.with(name, *value));
        assert_eq!(client.owner(ask).await.status, 201, "{headers:?}");
    }
    let rule = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>https://app.example</AllowedOrigins>\
        <AllowedMethods>POST</AllowedMethods><MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders/><AllowedHeaders/></CorsRule></Cors>\
        </StorageServiceProperties>";
    let set = Ask {
        body: rule.to_owned(),
        ..Ask::new("PUT", "?restype=service&comp=properties")
    };
    assert_eq!(
        client
            .owner(set.clone().with("Origin", "https://app.example"))
            .await
            .status,
        403
    );
    assert_eq!(client.owner(set).await.status, 202);
    let of_app = |ask: Ask| {
        ask.with("Origin", "https://app.example")
            .with("Sec-Fetch-Site", "cross-site")
    };
    assert_eq!(client.owner(of_app(insert("5"))).await.status, 201);
    assert_eq!(
        client.owner(of_app(Ask::new("GET", "abc()"))).await.status,
        403,
        "the rule names no GET"
    );
    assert_eq!(
        client
            .owner(insert("6").with("Origin", "https://evil.example"))
            .await
            .status,
        403
    );
    let (table, query) = ("abc".parse().unwrap(), Query::new());
    let rows = client
        .server
        .store()
        .query(&table, &query, None)
        .await
        .unwrap()
        .into_page()
        .unwrap()
        .items;
    assert_eq!(
        rows.iter().map(|row| row.key().row()).collect::<Vec<_>>(),
        ["2", "3", "4", "5"]
    );
}

/// The explorer needs no key, so a proxy would show all tables to its clients.
#[tokio::test]
async fn the_explorer_refuses_requests_through_a_proxy() {
    let server = start(Account::emulator(), ServerBuilder::explorer).await;
    let get = async |header: &str| {
        let request = format!(
            "GET /_explorer/accounts HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n"
        );
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        read(&answer).unwrap().status
    };
    assert_eq!(get("").await, 200);
    for header in [
        "X-Forwarded-For: 10.0.0.1",
        "X-Forwarded-Proto: https",
        "Forwarded: for=10.0.0.1",
        "Via: 1.1 proxy",
        "X-Real-IP: 10.0.0.1",
    ] {
        assert_eq!(get(&format!("{header}\r\n")).await, 403, "{header}");
    }
    assert_eq!(
        get("Origin: https://evil.example\r\nSec-Fetch-Mode: navigate\r\n").await,
        403
    );
}
