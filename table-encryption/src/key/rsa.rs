use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm, OaepPrivateDecryptingKey,
    OaepPublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use table_core::store::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

use super::refused;
use super::{KeyBytes, KeyWrap};

/// The hash function of OAEP, used for the label and for the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OaepHash {
    /// `RSA-OAEP`, as key vaults and the legacy libraries name it. OAEP does not need a collision-resistant
    /// hash.
    Sha1,
    /// `RSA-OAEP-256`.
    Sha256,
}

/// A local RSA key of 2048 to 8192 bits that wraps by OAEP.
///
/// With only the public key, a program can write but not read. AWS-LC does the arithmetic in constant time;
/// the crate `rsa` leaks timing (RUSTSEC-2023-0071). Operations take milliseconds and run on the blocking
/// pool.
pub struct RsaKeyWrap {
    key_id: Box<str>,
    algorithm: Box<str>,
    oaep: &'static OaepAlgorithm,
    public: Arc<OaepPublicEncryptingKey>,
    private: Option<Arc<OaepPrivateDecryptingKey>>,
}

impl RsaKeyWrap {
    /// Creates a key from a private key in unencrypted PKCS#8 DER.
    ///
    /// # Errors
    /// Fails if the bytes are not such a key.
    pub fn from_pkcs8(
        key_id: impl Into<Box<str>>,
        pkcs8: &KeyBytes,
        hash: OaepHash,
    ) -> Result<Self> {
        let private = PrivateDecryptingKey::from_pkcs8(pkcs8.expose())
            .map_err(|_| not_rsa("private", "PKCS#8"))?;
        let public = private.public_key();
        let private =
            OaepPrivateDecryptingKey::new(private).map_err(|_| not_rsa("private", "PKCS#8"))?;
        Self::new(key_id.into(), public, Some(Arc::new(private)), hash)
    }

    /// Creates a key from a public key in SubjectPublicKeyInfo DER (X.509). It can wrap but not unwrap.
    ///
    /// # Errors
    /// Fails if the bytes are not such a key.
    pub fn from_public_der(
        key_id: impl Into<Box<str>>,
        der: &[u8],
        hash: OaepHash,
    ) -> Result<Self> {
        let public = PublicEncryptingKey::from_der(der)
            .map_err(|_| not_rsa("public", "SubjectPublicKeyInfo"))?;
        Self::new(key_id.into(), public, None, hash)
    }

    fn new(
        key_id: Box<str>,
        public: PublicEncryptingKey,
        private: Option<Arc<OaepPrivateDecryptingKey>>,
        hash: OaepHash,
    ) -> Result<Self> {
        let public = OaepPublicEncryptingKey::new(public)
            .map_err(|_| not_rsa("public", "SubjectPublicKeyInfo"))?;
        let (algorithm, oaep) = match hash {
            OaepHash::Sha1 => ("RSA-OAEP", &OAEP_SHA1_MGF1SHA1),
            OaepHash::Sha256 => ("RSA-OAEP-256", &OAEP_SHA256_MGF1SHA256),
        };
        Ok(Self {
            key_id,
            algorithm: algorithm.into(),
            oaep,
            public: Arc::new(public),
            private,
        })
    }

    /// Sets another name for the algorithm. Legacy data uses `RSA` as well as `RSA-OAEP`.
    #[must_use]
    pub fn with_algorithm_name(mut self, name: impl Into<Box<str>>) -> Self {
        self.algorithm = name.into();
        self
    }
}

fn not_rsa(kind: &str, form: &str) -> Error {
    Error::invalid_argument(format!(
        "the bytes are not a {kind} RSA key of 2048 to 8192 bits in {form} DER"
    ))
}

#[async_trait]
impl KeyWrap for RsaKeyWrap {
    fn key_id(&self) -> &str {
        &self.key_id
    }

    fn algorithm(&self) -> &str {
        &self.algorithm
    }

    async fn wrap_key(&self, key: &KeyBytes) -> Result<Vec<u8>> {
        let (public, oaep, key) = (Arc::clone(&self.public), self.oaep, key.clone());
        blocking(move || {
            let mut out = vec![0; public.ciphertext_size()];
            let wrapped = public
                .encrypt(oaep, key.expose(), &mut out, None)
                .map(|wrapped| wrapped.to_vec());
            wrapped.map_err(|_| Error::invalid_argument("the key is too long for this RSA key"))
        })
        .await
    }

    async fn unwrap_key(&self, wrapped: &[u8]) -> Result<KeyBytes> {
        let Some(private) = self.private.clone() else {
            let what = format!("unwrapping with the public key '{}'", self.key_id);
            return Err(Error::unsupported("RSA-OAEP", what));
        };
        let (oaep, wrapped) = (self.oaep, wrapped.to_vec());
        blocking(move || {
            let mut out = Zeroizing::new(vec![0; private.min_output_size()]);
            let key = private
                .decrypt(oaep, &wrapped, &mut out, None)
                .map_err(|_| refused())?;
            Ok(KeyBytes::from(key.to_vec()))
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let stopped = |_| {
        ErrorKind::Transport(
            "the runtime stopped before the key was wrapped or unwrapped".to_owned(),
        )
        .into()
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(stopped)
        .flatten()
}

impl fmt::Debug for RsaKeyWrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RsaKeyWrap")
            .field("key_id", &self.key_id)
            .field("algorithm", &self.algorithm)
            .field("unwraps", &self.private.is_some())
            .finish_non_exhaustive()
    }
}
