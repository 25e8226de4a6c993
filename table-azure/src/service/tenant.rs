use azure_core::http::{Method, Url};
use table_core::Result;
use table_core::store::ErrorKind;

use crate::rest::{Call, Subject};
use crate::{AzureTableStore, AzureTableStoreOptions};

/// The Microsoft Entra tenant of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tenant {
    /// The tenant's id. Pass it to a credential of `azure_identity`.
    pub id: String,
    /// The address of the sign-in service without a path, for example `https://login.microsoftonline.com`.
    pub authority_host: String,
    /// The resource that tokens are for, for example `https://storage.azure.com`, if the service names it.
    pub resource: Option<String>,
}

/// Asks the service for the tenant of the account at `endpoint`. 1 request, without a credential.
///
/// A credential asks its own tenant for tokens. If the account is in another tenant, the service refuses these tokens. The service names
/// the right tenant in its answer to a request without a token (the *bearer challenge*,
/// <https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory#bearer-challenge>).
///
/// Anyone who can answer in place of the endpoint can name a tenant. Compare [`Tenant::authority_host`] with the sign-in service
/// that the program expects before the program sends a secret to it.
///
/// ```no_run
/// # async fn example() -> table_core::Result<()> {
/// let tenant = table_azure::service::discover_tenant("https://account.table.core.windows.net", None).await?;
/// assert_eq!(tenant.authority_host, "https://login.microsoftonline.com");
/// // For example: ClientSecretCredential::new(&tenant.id, client_id, secret, None)
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if the endpoint or the secondary endpoint is not an `https` URL, if it cannot be reached, and if its answer names no tenant. The emulator and Azure
/// Cosmos DB name none.
pub async fn discover_tenant(
    endpoint: &str,
    options: Option<AzureTableStoreOptions>,
) -> Result<Tenant> {
    AzureTableStore::without_credential(endpoint, options.unwrap_or_default())?
        .tenant()
        .await
}

/// The only status that `discover_tenant` accepts: the service refuses the request and names the tenant in its refusal.
const REFUSED: &[u16] = &[401];

impl AzureTableStore {
    async fn tenant(&self) -> Result<Tenant> {
        let client = self.client();
        let url = client
            .endpoint
            .read_from("Tables")
            .with("$top", "1")
            .into_url();
        // The service sends its challenge to requests of this scheme.
        let call = Call::named(
            "discover_tenant",
            Subject::Service,
            Method::Get,
            url,
            REFUSED,
        )
        .header("authorization", "Bearer");
        let answer = client.send(call).await?;
        let tenant = answer.header("www-authenticate").and_then(parse_challenge);
        tenant.ok_or_else(|| {
            ErrorKind::Service(
                "the service's answer names no tenant; give the credential the tenant's id"
                    .to_owned(),
            )
            .into()
        })
    }
}

/// Reads `Bearer authorization_uri=https://…/{tenant}/oauth2/authorize resource_id=https://…`. The parameters are separated by spaces or
/// commas, and may be in quotes.
fn parse_challenge(challenge: &str) -> Option<Tenant> {
    let parameters = challenge.split([' ', ',']).filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        Some((name.to_ascii_lowercase(), value.trim_matches('"')))
    });
    let (mut authorization, mut resource) = (None, None);
    for (name, value) in parameters {
        match name.as_str() {
            "authorization_uri" | "authorization" => authorization = Some(value),
            "resource_id" | "resource" => resource = Some(value.to_owned()),
            _ => {}
        }
    }
    // The caller sends a secret to this address, so plain http is refused.
    let url = Url::parse(authorization?)
        .ok()
        .filter(|url| url.scheme() == "https")?;
    // The first segment of the path of the authorization URL is the tenant.
    let id = url
        .path_segments()?
        .next()
        .filter(|id| !id.is_empty())?
        .to_owned();
    Some(Tenant {
        id,
        authority_host: url.origin().ascii_serialization(),
        resource,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(id: &str, host: &str, resource: Option<&str>) -> Tenant {
        Tenant {
            id: id.into(),
            authority_host: host.into(),
            resource: resource.map(str::to_owned),
        }
    }

    #[test]
    fn challenges_of_the_service_are_read() {
        let id = "72f988bf-86f1-41af-91ab-2d7cd011db47";
        let uri = format!("https://login.microsoftonline.com/{id}/oauth2/authorize");
        let expected = tenant(
            id,
            "https://login.microsoftonline.com",
            Some("https://storage.azure.com"),
        );
        for challenge in [
            format!("Bearer authorization_uri={uri} resource_id=https://storage.azure.com"),
            format!(
                "Bearer authorization_uri=\"{uri}\", resource_id=\"https://storage.azure.com\""
            ),
            format!("bearer Authorization=\"{uri}\",resource=\"https://storage.azure.com\""),
        ] {
            assert_eq!(
                parse_challenge(&challenge).as_ref(),
                Some(&expected),
                "{challenge}"
            );
        }
        let government =
            "Bearer authorization_uri=https://login.microsoftonline.us/t/oauth2/authorize";
        assert_eq!(
            parse_challenge(government),
            Some(tenant("t", "https://login.microsoftonline.us", None))
        );
    }

    #[test]
    fn challenges_without_a_tenant_are_not_read() {
        for challenge in [
            "",
            "Bearer",
            "Basic realm=\"proxy\"",
            "Bearer authorization_uri=",
            "Bearer authorization_uri=https://login.microsoftonline.com",
            "Bearer authorization_uri=http://login.microsoftonline.com/t/oauth2/authorize",
            "Bearer resource_id=https://storage.azure.com",
        ] {
            assert_eq!(parse_challenge(challenge), None, "{challenge}");
        }
    }
}
