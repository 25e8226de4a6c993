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

/// A certificate that is not signed by an authority, and its key, both in PEM. Clients must be configured to
/// trust the certificate. `Debug` does not print the key.
#[cfg(feature = "self-signed")]
pub struct SelfSigned {
    /// The certificate.
    pub certificate: String,
    /// The key. Keep it secret.
    pub key: String,
    /// The certificate is valid until the start of this day, in UTC.
    pub valid_until: chrono::NaiveDate,
}

#[cfg(feature = "self-signed")]
impl SelfSigned {
    /// The number of days that a certificate is valid: the most that clients of Apple accept.
    /// <https://support.apple.com/103769>
    pub const DAYS: u64 = 825;

    /// Makes a certificate for host names and addresses, with a new key. It is valid from yesterday.
    ///
    /// # Errors
    /// Fails if a name is not a host name.
    pub fn new(names: impl IntoIterator<Item = String>) -> Result<Self, InvalidCertificate> {
        use chrono::Datelike as _;
        let invalid = |error: rcgen::Error| InvalidCertificate(error.to_string());
        let mut parameters = rcgen::CertificateParams::new(names.into_iter().collect::<Vec<_>>())
            .map_err(invalid)?;
        let first = chrono::Utc::now().date_naive() - chrono::Days::new(1);
        // The last moment is part of the validity (<https://www.rfc-editor.org/rfc/rfc5280#section-4.1.2.5>) and is midnight at the start of
        // the last day: with one day more, the certificate would be valid for one second too long.
        let last = first + chrono::Days::new(Self::DAYS - 1);
        let day = |date: chrono::NaiveDate| {
            rcgen::date_time_ymd(date.year(), date.month() as u8, date.day() as u8)
        };
        (parameters.not_before, parameters.not_after) = (day(first), day(last));
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, "table-server");
        let key = rcgen::KeyPair::generate().map_err(invalid)?;
        let certificate = parameters.self_signed(&key).map_err(invalid)?.pem();
        Ok(Self {
            certificate,
            key: key.serialize_pem(),
            valid_until: last,
        })
    }
}

#[cfg(feature = "self-signed")]
impl fmt::Debug for SelfSigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelfSigned")
            .field("valid_until", &self.valid_until)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}
