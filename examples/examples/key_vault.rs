//! A key that stays in a key vault: the official client as a `KeyWrap`. The vault in this example is a stand-in in this process, which
//! responds to `wrapkey` and `unwrapkey` like Azure Key Vault (Managed HSM). (The program `tables` has the same type, with RSA keys and
//! Microsoft Entra ID: `table-cli/src/vault_key.rs`.)
//!
//! Cost: no table requests; 1 call to the vault per data key that is created or read, which the vault bills.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
use azure_core::http::headers::{Headers, WWW_AUTHENTICATE};
use azure_core::http::{
    AsyncRawResponse, ClientOptions, HttpClient, Request, StatusCode, Transport,
};
use azure_core::time::{Duration, OffsetDateTime};
use azure_security_keyvault_keys::models::{
    EncryptionAlgorithm, KeyClientWrapKeyOptions, KeyOperationParameters,
};
use azure_security_keyvault_keys::{KeyClient, KeyClientOptions};
use table_azure::client_error;
use table_core::{Error, Result};
use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, KeyWrap, Keys};
use table_patterns::prelude::*;

/// One version of a key in a vault.
struct VaultKey {
    client: KeyClient,
    id: String,
    name: &'static str,
    version: &'static str,
}

impl VaultKey {
    fn parameters(value: &[u8]) -> KeyOperationParameters {
        KeyOperationParameters {
            algorithm: Some(EncryptionAlgorithm::A256Kw),
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
        "A256KW"
    }

    async fn wrap_key(&self, key: &KeyBytes) -> Result<Vec<u8>> {
        let content = Self::parameters(key.expose()).try_into().map_err(failed)?;
        let options = KeyClientWrapKeyOptions {
            key_version: Some(self.version.to_owned()),
            ..Default::default()
        };
        let response = self
            .client
            .wrap_key(self.name, content, Some(options))
            .await
            .map_err(failed)?;
        response
            .into_model()
            .map_err(failed)?
            .result
            .ok_or_else(empty)
    }

    async fn unwrap_key(&self, wrapped: &[u8]) -> Result<KeyBytes> {
        let content = Self::parameters(wrapped).try_into().map_err(failed)?;
        match self
            .client
            .unwrap_key(self.name, self.version, content, None)
            .await
        {
            // The vault refuses a key that it did not wrap.
            Err(e) if e.http_status() == Some(StatusCode::BadRequest) => {
                Err(ErrorKind::Encryption("the vault cannot unwrap the key".to_owned()).into())
            }
            response => {
                let model = response.map_err(failed)?.into_model().map_err(failed)?;
                model.result.map(KeyBytes::from).ok_or_else(empty)
            }
        }
    }
}

/// Converts an error of the vault's client. A refused request (401, 403) is not retried.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: azure_core::Error) -> Error {
    client_error("the key vault", &error)
}

fn empty() -> Error {
    ErrorKind::Service("the key vault's response has no key".to_owned()).into()
}

#[tokio::main]
async fn main() -> Result<()> {
    let vault = Arc::new(StandIn {
        key: AesKeyWrap::new("", &KeyBytes::random(32)?)?,
        calls: AtomicUsize::new(0),
    });
    let transport: Arc<dyn HttpClient> = vault.clone();
    let client_options = ClientOptions {
        transport: Some(Transport::new(transport)),
        ..ClientOptions::default()
    };
    let options = KeyClientOptions {
        client_options,
        ..KeyClientOptions::default()
    };
    let address = "https://contoso.managedhsm.azure.net";
    let client = KeyClient::new(address, Arc::new(NoCredential), Some(options)).map_err(failed)?;
    let (name, version) = ("table-kek", "0123456789abcdef");
    let key = Arc::new(VaultKey {
        client,
        id: format!("{address}/keys/{name}/{version}"),
        name,
        version,
    });

    let raw = Arc::new(MemoryStore::new());
    let people = TableName::new("People")?;
    let writer = EncryptedStore::new(Arc::clone(&raw), Keys::new(key.clone()))?;
    writer.create_table(&people).await?;
    for n in 0..500 {
        let person = Entity::new("Sales", n.to_string())?.with_encrypted("NationalId", n);
        writer.write(&people, Operation::Insert(person)).await?;
    }
    // 2 calls to the vault for 500 writes: an authentication challenge (401) and one `wrapkey`; the data key is cached. 1 `unwrapkey` for
    // 500 reads by another program.
    assert_eq!(vault.calls.load(SeqCst), 2);
    let reader = EncryptedStore::new(raw, Keys::new(key))?;
    assert_eq!(reader.query_all(&people, &Query::new()).await?.len(), 500);
    assert_eq!(vault.calls.load(SeqCst), 3);
    Ok(())
}

/// Simulates the vault: responds to its two requests with a local key.
#[derive(Debug)]
struct StandIn {
    key: AesKeyWrap,
    calls: AtomicUsize,
}

#[async_trait]
impl HttpClient for StandIn {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        self.calls.fetch_add(1, SeqCst);
        let mut headers = Headers::new();
        let body = azure_core::Bytes::from(request.body());
        if body.is_empty() {
            let challenge = "Bearer authorization=\"https://login.example\", resource=\"https://managedhsm.azure.net\"";
            headers.insert(WWW_AUTHENTICATE, challenge);
            return Ok(AsyncRawResponse::from_bytes(
                StatusCode::Unauthorized,
                headers,
                "",
            ));
        }
        let parameters: KeyOperationParameters = serde_json::from_slice(&body)?;
        let value = parameters.value.unwrap_or_default();
        let result = if request.url().path().ends_with("/wrapkey") {
            self.key.wrap_key(&value.into()).await
        } else {
            self.key
                .unwrap_key(&value)
                .await
                .map(|key| key.expose().to_vec())
        };
        Ok(match result {
            Ok(bytes) => {
                let value = azure_core::base64::encode_url_safe(bytes);
                let json = format!(r#"{{"kid":"table-kek","value":"{value}"}}"#);
                AsyncRawResponse::from_bytes(StatusCode::Ok, headers, json)
            }
            Err(_) => AsyncRawResponse::from_bytes(StatusCode::BadRequest, headers, ""),
        })
    }
}

/// A program uses a credential of `azure_identity`.
#[derive(Debug)]
struct NoCredential;

#[async_trait]
impl TokenCredential for NoCredential {
    async fn get_token(
        &self,
        _scopes: &[&str],
        _options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        Ok(AccessToken::new(
            "example token",
            OffsetDateTime::now_utc() + Duration::hours(1),
        ))
    }
}
