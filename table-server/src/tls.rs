//! HTTPS by `rustls`.

use std::fmt;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// A certificate with its chain and key. `Debug` does not print the key.
#[derive(Clone)]
pub struct Certificate(TlsAcceptor);

/// Why a certificate cannot be used. The text contains no key.
#[derive(Debug, thiserror::Error)]
#[error("the certificate cannot be used: {0}")]
pub struct InvalidCertificate(String);

impl Certificate {
    /// Reads a certificate chain, leaf first, and its key, both in PEM.
    ///
    /// # Errors
    /// Fails if they are not PEM or do not match.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, InvalidCertificate> {
        let invalid = |what: &str| InvalidCertificate(what.to_owned());
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| invalid("the chain is not PEM"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| invalid("the key is not PEM"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|e| invalid(&e.to_string()))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept<S>(&self, stream: S) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.0.accept(stream).await
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}
