use azure_core::cloud::CloudConfiguration;

use crate::AzureTableStore;

/// Returns the token scope for the cloud and the service (Azure Storage or Cosmos DB).
///
/// A custom cloud sets its audience with `audiences.with::<AzureTableStore>(…)`. Without one, the public
/// cloud's audience is used, which also works for the emulator.
pub(crate) fn scope(audience: Option<&str>, cloud: Option<&CloudConfiguration>, cosmos: bool) -> String {
    let service = if cosmos { "cosmos" } else { "storage" };
    let audience = audience.map(str::to_owned).unwrap_or_else(|| match cloud {
        Some(CloudConfiguration::AzureGovernment) => format!("https://{service}.azure.us"),
        Some(CloudConfiguration::AzureChina) => format!("https://{service}.azure.cn"),
        Some(CloudConfiguration::Custom(custom)) => match custom.audiences.get::<AzureTableStore>() {
            Some(audience) => audience.to_owned(),
            None => format!("https://{service}.azure.com"),
        },
        _ => format!("https://{service}.azure.com"),
    });
    format!("{}/.default", audience.trim_end_matches("/.default").trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use azure_core::cloud::{Audiences, CustomConfiguration};

    use super::*;

    #[test]
    fn clouds_and_services_have_their_audiences() {
        let government = CloudConfiguration::AzureGovernment;
        let china = CloudConfiguration::AzureChina;
        assert_eq!(scope(None, None, false), "https://storage.azure.com/.default");
        assert_eq!(scope(None, Some(&government), false), "https://storage.azure.us/.default");
        assert_eq!(scope(None, Some(&china), true), "https://cosmos.azure.cn/.default");
        assert_eq!(scope(None, Some(&government), true), "https://cosmos.azure.us/.default");
        assert_eq!(scope(None, Some(&china), false), "https://storage.azure.cn/.default");
        let unnamed = CustomConfiguration::default().into();
        assert_eq!(scope(None, Some(&unnamed), true), "https://cosmos.azure.com/.default");
        assert_eq!(scope(Some("https://my.cloud/"), Some(&china), true), "https://my.cloud/.default");
        let mut custom = CustomConfiguration::default();
        custom.audiences = Audiences::new().with::<AzureTableStore>("https://s.local".to_owned());
        assert_eq!(scope(None, Some(&custom.into()), false), "https://s.local/.default");
    }
}
