//! Tokens of Microsoft Entra ID.

use std::sync::Arc;

use azure_core::Result;
use azure_core::credentials::{AccessToken, TokenCredential};
use azure_core::http::headers::HeaderValue;
use azure_core::time::{Duration, OffsetDateTime};
use tokio::sync::RwLock;

/// A token is renewed this long before it expires.
const RENEWED_BEFORE: Duration = Duration::minutes(5);

/// The token of a store, which its requests share.
///
/// The policy of `azure_core` asks for the token within the time of the request. A write that waits for a token would then be reported
/// as perhaps applied, although it was never sent.
#[derive(Debug)]
pub(crate) struct Tokens {
    credential: Arc<dyn TokenCredential>,
    scope: String,
    held: RwLock<Option<AccessToken>>,
}

impl Tokens {
    pub(crate) fn new(credential: Arc<dyn TokenCredential>, scope: String) -> Self {
        Self {
            credential,
            scope,
            held: RwLock::default(),
        }
    }

    /// Returns the value of the header `authorization`. Asks the credential if there is no token, or if it expires soon.
    ///
    /// # Errors
    /// Fails if the credential has no token, and no earlier token is valid.
    pub(super) async fn authorization(&self) -> Result<HeaderValue> {
        if let Some(token) = self
            .held
            .read()
            .await
            .as_ref()
            .filter(|token| !is_due(token))
        {
            return Ok(bearer(token));
        }
        // The requests that wait here use the token of the first one.
        let mut held = self.held.write().await;
        if let Some(token) = held.as_ref().filter(|token| !is_due(token)) {
            return Ok(bearer(token));
        }
        match (
            self.credential.get_token(&[&self.scope], None).await,
            &*held,
        ) {
            (Ok(token), _) => Ok(bearer(held.insert(token))),
            (Err(_), Some(token)) if token.expires_on > OffsetDateTime::now_utc() => {
                Ok(bearer(token))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Drops the token, which the service has refused.
    pub(super) async fn forget(&self) {
        *self.held.write().await = None;
    }
}

fn is_due(token: &AccessToken) -> bool {
    token.expires_on <= OffsetDateTime::now_utc() + RENEWED_BEFORE
}

fn bearer(token: &AccessToken) -> HeaderValue {
    HeaderValue::from(format!("Bearer {}", token.token.secret()))
}
