//! The suite on the memory store.

use std::sync::Arc;

use conformance::{Backend, async_trait, conformance_tests};
use table_core::memory::MemoryStore;
use table_core::store::TableStore;

struct Memory;

#[async_trait]
impl Backend for Memory {
    async fn store(&self) -> Arc<dyn TableStore> {
        Arc::new(MemoryStore::new())
    }
}

conformance_tests!(Memory);
