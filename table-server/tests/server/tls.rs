//! HTTPS.

use std::path::Path;
use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_server::{Account, Certificate, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A certificate of `localhost` for tests, valid until 2126.
fn pem(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/server/tls")
            .join(name),
    )
    .unwrap()
}

fn connector() -> TlsConnector {
    connector_for(&pem("localhost.pem"))
}

fn connector_for(certificate: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(certificate).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn only_tls_connections_are_accepted() {
    let certificate = Certificate::from_pem(&pem("localhost.pem"), &pem("localhost.key")).unwrap();
    let builder = Server::builder()
        .account(Account::emulator(), MemoryStore::new())
        .certificate(certificate);
    let server = builder
        .listen("127.0.0.1:0".parse().unwrap())
        .start()
        .await
        .unwrap();
    assert!(
        server
            .connection_string("devstoreaccount1")
            .unwrap()
            .contains("TableEndpoint=https://127.0.0.1:")
    );
    let request = b"GET /_health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let mut stream = connector()
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    let mut plain = TcpStream::connect(server.address()).await.unwrap();
    plain.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

/// The server waits for a handshake longer than a stop waits for pending requests.
#[tokio::test]
async fn a_stop_does_not_wait_for_handshakes() {
    let certificate = Certificate::from_pem(&pem("localhost.pem"), &pem("localhost.key")).unwrap();
    let builder = Server::builder()
        .account(Account::emulator(), MemoryStore::new())
        .certificate(certificate);
    let server = builder
        .listen("127.0.0.1:0".parse().unwrap())
        .start()
        .await
        .unwrap();
    let mut silent = TcpStream::connect(server.address()).await.unwrap();
    let mut half = TcpStream::connect(server.address()).await.unwrap();
    // The start of a handshake record whose rest does not arrive.
    half.write_all(&[0x16, 3, 1, 2, 0]).await.unwrap();
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let mut open = connector()
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
    assert!(
        server.stop().await,
        "every connection has ended before the time of the stop"
    );
    for stream in [&mut silent, &mut half] {
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or_default(), 0);
    }
    assert_eq!(open.read(&mut [0; 16]).await.unwrap_or_default(), 0);
}

#[cfg(feature = "self-signed")]
#[tokio::test]
async fn clients_that_trust_a_self_signed_certificate_connect() {
    let made =
        table_server::SelfSigned::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    assert!(!format!("{made:?}").contains("PRIVATE"));
    let certificate =
        Certificate::from_pem(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    let builder = Server::builder()
        .account(Account::emulator(), MemoryStore::new())
        .certificate(certificate);
    let server = builder
        .listen("127.0.0.1:0".parse().unwrap())
        .start()
        .await
        .unwrap();
    for (trusted, name, connects) in [
        (made.certificate.as_bytes(), "localhost", true),
        (made.certificate.as_bytes(), "127.0.0.1", true),
        (made.certificate.as_bytes(), "other", false),
        (&pem("localhost.pem")[..], "localhost", false),
    ] {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let connected = connector_for(trusted)
            .connect(name.try_into().unwrap(), stream)
            .await;
        assert_eq!(connected.is_ok(), connects, "{name}");
    }
    assert!(table_server::SelfSigned::new(["no name\u{e9}".to_owned()]).is_err());
}

#[test]
fn invalid_certificates_are_refused_without_showing_keys() {
    let key = pem("localhost.key");
    for (chain, key) in [
        (&b"nothing"[..], &key[..]),
        (&pem("localhost.pem")[..], b"nothing"),
        (&key[..], &key[..]),
    ] {
        let error = Certificate::from_pem(chain, key).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the certificate cannot be used"),
            "{error}"
        );
    }
}
