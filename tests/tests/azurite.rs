//! The suite on Azurite, the emulator of Azure Storage.

use std::sync::Arc;

use conformance::azurite::Azurite;
use conformance::{Backend, Deviation, Scale, async_trait, conformance_tests};
use table_azure::AzureTableStore;
use table_core::store::TableStore;

struct Emulated;

/// Where Azurite 3.37 is known to differ from the documented service.
const AZURITE: [Deviation; 10] = [
    Deviation::MergesBeyondLimits,
    Deviation::Int64LiteralOnInt32,
    Deviation::DoubleLiterals,
    Deviation::DateTimesByMillisecond,
    Deviation::Int64AsText,
    Deviation::NegativeZero,
    Deviation::EntitySize,
    Deviation::SplitCharacters,
    Deviation::TableNameCase,
    Deviation::GroupVersions,
];

#[async_trait]
impl Backend for Emulated {
    // A store of its own for each test: connections belong to a test's runtime.
    async fn store(&self) -> Arc<dyn TableStore> {
        let emulator = tokio::task::spawn_blocking(Azurite::shared).await.expect("the emulator runs");
        let store = AzureTableStore::from_connection_string(&emulator.connection_string(), None);
        Arc::new(store.expect("the emulator's connection string"))
    }

    fn deviations(&self) -> &[Deviation] {
        &AZURITE
    }

    fn scale(&self) -> Scale {
        Scale::MODERATE
    }
}

conformance_tests!(Emulated);
