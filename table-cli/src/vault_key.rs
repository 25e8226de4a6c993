//! Keys in Azure Key Vault and Managed HSM, which wrap data keys and never leave it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::{StatusCode, Url};
use azure_security_keyvault_keys::models::{
    EncryptionAlgorithm, KeyClientWrapKeyOptions, KeyOperationParameters,
};
use azure_security_keyvault_keys::{KeyClient, KeyClientOptions};
use table_azure::client_error;
use table_core::store::{Error, ErrorKind, Result};
use table_encryption::{KeyBytes, KeyWrap};

use crate::store::credential;

/// One version of a key in a vault. Its id is its address.
pub(crate) struct VaultKey {
    client: KeyClient,
    id: String,
    name: String,
    version: String,
    algorithm: EncryptionAlgorithm,
    algorithm_name: &'static str,
}

impl VaultKey {
    /// Names a key, and sends no request.
    pub(crate) fn new(url: &str, algorithm: Option<&str>) -> Result<Self, String> {
        let form = "the address of a vault's key is https://NAME.vault.azure.net/keys/KEY/VERSION";
        let address = Url::parse(url).map_err(|_| form)?;
        let parts: Vec<_> = address.path_segments().into_iter().flatten().collect();
        let (["keys", name, version], "https") = (&parts[..], address.scheme()) else {
            return Err(form.to_owned());
        };
        // The id must have the version: a data key can only be unwrapped by the version that has wrapped it.
        if name.is_empty() || version.is_empty() {
            return Err(form.to_owned());
        }
        let (algorithm, algorithm_name) = match algorithm {
            None | Some("RSA-OAEP-256") => (EncryptionAlgorithm::RsaOaep256, "RSA-OAEP-256"),
            Some("RSA-OAEP") => (EncryptionAlgorithm::RsaOaep, "RSA-OAEP"),
            Some("A256KW") => (EncryptionAlgorithm::A256Kw, "A256KW"),
            Some(_) => {
                return Err(
                    "the algorithm of a vault's key is RSA-OAEP-256, RSA-OAEP or A256KW".to_owned(),
                );
            }
        };
        let credential = credential().map_err(|error| error.to_string())?;
        let host = address.host_str().ok_or(form)?;
        let vault = match address.port() {
            Some(port) => format!("https://{host}:{port}"),
            None => format!("https://{host}"),
        };
        let mut options = KeyClientOptions::default();
        options.client_options.transport = table_azure::transport();
        let client = KeyClient::new(&vault, Arc::clone(&credential), Some(options))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            // Not the text of the caller: host names ignore case, and the same key must have one id.
            id: format!("{vault}/keys/{name}/{version}"),
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            algorithm,
            algorithm_name,
        })
    }

    fn parameters(&self, value: &[u8]) -> KeyOperationParameters {
        KeyOperationParameters {
            algorithm: Some(self.algorithm.clone()),
            value: Some(value.to_vec()),
            ..KeyOperationParameters::default()
        }
    }
}

impl fmt::Debug for VaultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VaultKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl KeyWrap for VaultKey {
    fn key_id(&self) -> &str {
        &self.id
    }

    fn algorithm(&self) -> &str {
        self.algorithm_name
    }

    async fn wrap_key(&self, key: &KeyBytes) -> Result<Vec<u8>> {
        let content = self
            .parameters(key.expose())
            .try_into()
            .map_err(|e| failed(&e))?;
        // Without a version the vault would take the newest one, and the id that is stored with the wrapped
        // key would name another.
        let options = KeyClientWrapKeyOptions {
            key_version: Some(self.version.clone()),
            ..Default::default()
        };
        let answer = self
            .client
            .wrap_key(&self.name, content, Some(options))
            .await
            .map_err(|e| failed(&e))?;
        answer
            .into_model()
            .map_err(|e| failed(&e))?
            .result
            .ok_or_else(empty)
    }

    async fn unwrap_key(&self, wrapped: &[u8]) -> Result<KeyBytes> {
        let content = self
            .parameters(wrapped)
            .try_into()
            .map_err(|e| failed(&e))?;
        match self
            .client
            .unwrap_key(&self.name, &self.version, content, None)
            .await
        {
            // The vault refuses a key that it did not wrap.
            Err(error) if error.http_status() == Some(StatusCode::BadRequest) => {
                Err(ErrorKind::Encryption("the vault cannot unwrap the key".to_owned()).into())
            }
            answer => {
                let model = answer
                    .map_err(|e| failed(&e))?
                    .into_model()
                    .map_err(|e| failed(&e))?;
                model.result.map(KeyBytes::from).ok_or_else(empty)
            }
        }
    }
}

/// Converts a failure of the vault. A refusal is not transient: a retry would only repeat it.
fn failed(error: &azure_core::Error) -> Error {
    client_error("the key vault", error)
}

fn empty() -> Error {
    ErrorKind::Service("the key vault's answer has no key".to_owned()).into()
}

#[cfg(test)]
mod tests {
    use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
    use azure_core::http::headers::Headers;
    use azure_core::http::{AsyncRawResponse, HttpClient, Request, RetryOptions, Transport};

    use super::*;

    /// A vault that answers every request with this status, and a credential that is not asked.
    #[derive(Debug)]
    struct Refusing(u16);

    #[async_trait]
    impl HttpClient for Refusing {
        async fn execute_request(&self, _: &Request) -> azure_core::Result<AsyncRawResponse> {
            Ok(AsyncRawResponse::from_bytes(
                self.0.into(),
                Headers::new(),
                "{}",
            ))
        }
    }

    #[async_trait]
    impl TokenCredential for Refusing {
        async fn get_token(
            &self,
            _: &[&str],
            _: Option<TokenRequestOptions<'_>>,
        ) -> azure_core::Result<AccessToken> {
            panic!("the vault sends no challenge")
        }
    }

    #[tokio::test]
    async fn a_refusal_of_the_vault_is_not_transient() {
        for (status, wraps, unwraps) in [
            (400, "Rejected", "Encryption"),
            (401, "Unauthorized", "Unauthorized"),
            (403, "Forbidden", "Forbidden"),
            (404, "Rejected", "Rejected"),
            (429, "Throttled", "Throttled"),
            (503, "Transport", "Transport"),
        ] {
            let mut options = KeyClientOptions::default();
            options.client_options.retry = RetryOptions::none();
            options.client_options.transport = Some(Transport::new(Arc::new(Refusing(status))));
            let credential = Arc::new(Refusing(status));
            let client =
                KeyClient::new("https://contoso.vault.azure.net", credential, Some(options))
                    .unwrap();
            let key = VaultKey {
                client,
                id: String::new(),
                name: "kek".to_owned(),
                version: "0123".to_owned(),
                algorithm: EncryptionAlgorithm::A256Kw,
                algorithm_name: "A256KW",
            };
            let wrapped = key
                .wrap_key(&KeyBytes::from(vec![7; 32]))
                .await
                .unwrap_err();
            let unwrapped = key.unwrap_key(&[7; 40]).await.unwrap_err();
            for (error, kind) in [(wrapped, wraps), (unwrapped, unwraps)] {
                assert!(
                    format!("{:?}", error.kind()).starts_with(kind),
                    "{status}: {error:?}"
                );
                assert_eq!(
                    error.is_transient(),
                    matches!(status, 429 | 503),
                    "{status}: {error}"
                );
            }
        }
    }

    #[test]
    fn the_address_names_the_vault_the_key_and_the_version() {
        let key = VaultKey::new("https://contoso.vault.azure.net/keys/kek/0123", None).unwrap();
        assert_eq!(
            (&*key.name, &*key.version, key.algorithm()),
            ("kek", "0123", "RSA-OAEP-256")
        );
        for wrong in [
            "http://contoso.vault.azure.net/keys/kek/0123",
            "https://contoso.vault.azure.net/keys/kek",
            "https://contoso.vault.azure.net/keys/kek/",
            "https://contoso.vault.azure.net/secrets/kek/0123",
            "kek",
        ] {
            assert!(
                VaultKey::new(wrong, None)
                    .unwrap_err()
                    .contains("keys/KEY/VERSION"),
                "{wrong}"
            );
        }
        let same = VaultKey::new(
            "HTTPS://Contoso.Vault.azure.net:443/keys/kek/0123?api-version=7.4",
            None,
        )
        .unwrap();
        assert_eq!(same.key_id(), key.key_id());
        let other = VaultKey::new(
            "https://contoso.vault.azure.net/keys/kek/0123",
            Some("HS256"),
        );
        assert!(other.unwrap_err().contains("algorithm"));
    }
}
