//! An account with what it serves.

use std::sync::Arc;

use table_core::store::TableStore;
use tokio::sync::Mutex;

use crate::account::Account;
use crate::settings::Settings;

/// An account, its store, and what the service keeps beside tables.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) account: Account,
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) settings: Settings,
    /// Excludes what changes tables and what changes their policies from each other: a table that is created never has the
    /// policies of one that was deleted.
    pub(crate) tables: Mutex<()>,
}

impl Tenant {
    pub(crate) fn new(account: Account, store: Arc<dyn TableStore>) -> Self {
        // Clients write it from now on, which tell nobody here.
        if let Some(writers) = store.local_writers() {
            writers.serve();
        }
        Self { account, settings: Settings::new(Arc::clone(&store)), store, tables: Mutex::new(()) }
    }
}

/// The accounts of a server.
#[derive(Debug, Default)]
pub(crate) struct Tenants(Vec<Tenant>);

impl Tenants {
    pub(crate) fn add(&mut self, account: Account, store: Arc<dyn TableStore>) {
        self.0.retain(|tenant| tenant.account.name() != account.name());
        self.0.push(Tenant::new(account, store));
    }

    pub(crate) fn of(&self, account: &str) -> Option<&Tenant> {
        self.0.iter().find(|tenant| tenant.account.name() == account)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an account has the emulator's key.
    pub(crate) fn public_key(&self) -> Option<&str> {
        self.0.iter().map(|tenant| &tenant.account).find(|a| a.has_public_key()).map(Account::name)
    }
}

#[cfg(test)]
mod tests {
    use table_core::memory::MemoryStore;

    use super::*;

    /// Its clients write it from other processes: changes of indexes' states go by durations from now on.
    #[test]
    fn a_store_with_an_account_is_known_to_be_served() {
        let store = MemoryStore::new();
        let is_served = || store.local_writers().is_some_and(|writers| writers.is_served());
        assert!(!is_served());
        Tenant::new(Account::emulator(), Arc::new(store.clone()));
        assert!(is_served());
    }
}
