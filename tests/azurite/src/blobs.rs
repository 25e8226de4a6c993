//! Opens blob containers of Azure and of the emulator through `object_store`.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use object_store::azure::{
    AzureAccessKey, AzureAuthorizer, AzureCredential, MicrosoftAzureBuilder, split_sas,
};
use object_store::client::{HttpConnector as _, HttpRequestBody, ReqwestConnector};
use object_store::{ClientOptions, ObjectStore, StaticCredentialProvider};

/// Opens a container by a connection string with an account key or a shared access signature, and creates it if
/// it is missing. One request.
///
/// # Errors
///
/// The connection string is incomplete, or the container cannot be created. The error contains no secret.
pub async fn azure_container(
    connection_string: &str,
    container: &str,
) -> Result<Arc<dyn ObjectStore>, String> {
    let account = Account::parse(connection_string)?;
    account.create(container).await?;
    let builder = MicrosoftAzureBuilder::new()
        .with_account(&account.name)
        .with_endpoint(account.endpoint.clone())
        .with_container_name(container)
        .with_client_options(account.client())
        .with_credentials(Arc::new(StaticCredentialProvider::new(account.credential)));
    let store = builder
        .build()
        .map_err(|e| format!("the blob container {container}: {e}"))?;
    Ok(Arc::new(store))
}

/// The emulator at its default port, with its public account.
const DEVELOPMENT: &str = "AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6\
    IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1";

/// The blob settings of a connection string.
struct Account {
    name: String,
    endpoint: String,
    credential: AzureCredential,
}

impl Account {
    fn parse(text: &str) -> Result<Self, String> {
        let text = if text.contains("UseDevelopmentStorage=true") {
            DEVELOPMENT
        } else {
            text
        };
        let settings = || {
            text.split(';')
                .filter_map(|setting| setting.split_once('='))
        };
        let setting = |name: &str| {
            settings()
                .find(|(n, _)| n.eq_ignore_ascii_case(name))
                .map(|(_, v)| v)
        };
        let name = setting("AccountName").ok_or("the connection string has no AccountName")?;
        let protocol = setting("DefaultEndpointsProtocol").unwrap_or("https");
        let suffix = setting("EndpointSuffix").unwrap_or("core.windows.net");
        let default = || format!("{protocol}://{name}.blob.{suffix}");
        let endpoint =
            setting("BlobEndpoint").map_or_else(default, |e| e.trim_end_matches('/').to_owned());
        let credential = match (setting("AccountKey"), setting("SharedAccessSignature")) {
            (Some(key), _) => AzureAccessKey::try_new(key)
                .map(AzureCredential::AccessKey)
                .map_err(drop),
            (None, Some(token)) => split_sas(token)
                .map(AzureCredential::SASToken)
                .map_err(drop),
            (None, None) => {
                return Err(
                    "the connection string has no AccountKey or SharedAccessSignature".into(),
                );
            }
        };
        let credential = credential
            .map_err(|()| "the connection string's key or signature is malformed".to_owned())?;
        Ok(Self {
            name: name.to_owned(),
            endpoint,
            credential,
        })
    }

    fn client(&self) -> ClientOptions {
        let options = ClientOptions::new().with_allow_http(self.endpoint.starts_with("http://"));
        if !self.endpoint.starts_with("http://127.0.0.1:") {
            return options;
        }
        // The emulator is on this machine. The proxies of the environment cannot be ignored otherwise: a proxy of its own takes their place,
        // and is used for no host of this machine.
        options
            .with_proxy_url("http://localhost:9")
            .with_proxy_excludes("localhost,127.0.0.0/8")
    }

    /// <https://learn.microsoft.com/en-us/rest/api/storageservices/create-container>
    async fn create(&self, container: &str) -> Result<(), String> {
        let failed = |e: &dyn std::fmt::Display| {
            format!("cannot create the blob container {container}: {e}")
        };
        let request = Request::builder()
            .method(Method::PUT)
            .uri(format!("{}/{container}?restype=container", self.endpoint))
            .body(HttpRequestBody::empty());
        let mut request = request.map_err(|e| failed(&e))?;
        let authorizer = AzureAuthorizer::new(&self.credential, &self.name);
        authorizer
            .try_authorize(&mut request)
            .map_err(|e| failed(&e))?;
        let client = ReqwestConnector::default()
            .connect(&self.client())
            .map_err(|e| failed(&e))?;
        match client
            .execute(request)
            .await
            .map_err(|e| failed(&e))?
            .status()
        {
            StatusCode::CREATED | StatusCode::CONFLICT => Ok(()),
            status => Err(failed(&status)),
        }
    }
}
