//! An account with its store and settings.

use std::sync::Arc;

use table_core::model::TableName;
use table_core::store::TableStore;
use tokio::sync::Mutex;

use crate::account::Account;
use crate::errors::{Failure, Result};
use crate::settings::Settings;

/// An account with its store and settings.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) account: Account,
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) settings: Settings,
    /// Whether writes are refused.
    pub(crate) is_read_only: bool,
    /// Serializes changes of tables with changes of their policies, so that a new table never has the
    /// policies of a deleted one.
    pub(crate) tables: Mutex<()>,
}

impl Tenant {
    pub(crate) fn new(account: Account, store: Arc<dyn TableStore>) -> Self {
        // From now on, clients write to the store without informing this process.
        if let Some(writers) = store.local_writers() {
            writers.serve();
        }
        let settings = Settings::new(Arc::clone(&store));
        Self { account, settings, store, is_read_only: false, tables: Mutex::new(()) }
    }

    /// Refuses a table that does not exist.
    pub(crate) async fn require_table(&self, table: &TableName) -> Result<()> {
        if self.find_table(table).await?.is_some() { Ok(()) } else { Err(Failure::table_not_found()) }
    }

    /// Returns the table under the name with which it was created.
    pub(crate) async fn find_table(&self, table: &TableName) -> Result<Option<TableName>> {
        let identity = self.store.profile().table_identity(table);
        let mut from = None;
        loop {
            let page = self.store.list_tables(Some(table.as_str()), from.as_ref()).await?;
            let mut names = page.items.into_iter();
            if let Some(found) = names.find(|name| self.store.profile().table_identity(name) == identity) {
                return Ok(Some(found));
            }
            from = Some(match page.continuation {
                Some(next) => next,
                None => return Ok(None),
            });
        }
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

    /// Refuses writes to all accounts.
    pub(crate) fn set_read_only(&mut self) {
        self.0.iter_mut().for_each(|tenant| tenant.is_read_only = true);
    }

    /// Sends a request to the store of each account.
    pub(crate) async fn check(&self) -> table_core::Result<()> {
        for tenant in &self.0 {
            tenant.settings.check().await?;
        }
        Ok(())
    }

    /// Returns the name of an account that has the emulator's key.
    pub(crate) fn public_key(&self) -> Option<&str> {
        self.0.iter().map(|tenant| &tenant.account).find(|a| a.has_public_key()).map(Account::name)
    }
}

#[cfg(test)]
mod tests {
    use table_core::memory::MemoryStore;

    use super::*;

    /// Clients write from other processes, so changes of index states must wait for durations from now on.
    #[test]
    fn a_store_with_an_account_is_known_to_be_served() {
        let store = MemoryStore::new();
        let is_served = || store.local_writers().is_some_and(|writers| writers.is_served());
        assert!(!is_served());
        Tenant::new(Account::emulator(), Arc::new(store.clone()));
        assert!(is_served());
    }
}
