//! The accounts of a server.

use std::sync::Arc;

use table_core::model::TableName;
use table_core::store::TableStore;
use tokio::sync::Mutex;

use crate::account::Account;
use crate::clients::{ClientStore, Maintainer};
use crate::errors::{Failure, Result};
use crate::settings::Settings;

/// An account with its store and settings.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) account: Account,
    /// The store as the clients of the tenant see it.
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) settings: Arc<Settings>,
    /// Whether writes are refused.
    pub(crate) is_read_only: bool,
    /// Whether a key of the account is the emulator's, which is published.
    pub(crate) has_public_key: bool,
    /// Serializes changes of tables with changes of their policies, so that a new table never has the
    /// policies of a deleted one. All accounts of a server share it, because they can share a store.
    pub(crate) table_lock: Arc<Mutex<()>>,
}

impl Tenant {
    fn new(account: Account, store: Arc<dyn TableStore>, table_lock: Arc<Mutex<()>>) -> Self {
        // From now on, clients in other processes write through this server, and the register of local writers does not know their writes.
        if let Some(writers) = store.context().local_writers() {
            writers.serve();
        }
        let settings = Arc::new(Settings::new(Arc::clone(&store)));
        let has_public_key = account.has_public_key();
        Self {
            account,
            settings,
            store,
            is_read_only: false,
            has_public_key,
            table_lock,
        }
    }

    /// Refuses a table that does not exist.
    pub(crate) async fn require_table(&self, table: &TableName) -> Result<()> {
        if self.find_table(table).await?.is_some() {
            Ok(())
        } else {
            Err(Failure::table_not_found())
        }
    }

    /// Returns the table under the name with which it was created.
    pub(crate) async fn find_table(&self, table: &TableName) -> Result<Option<TableName>> {
        // By the list and not by a read: only the list has the name in the case in which the table was created.
        let identity = self.store.profile().table_identity(table);
        let mut from = None;
        loop {
            let page = self
                .store
                .list_tables(Some(table.as_str()), from.as_ref())
                .await?;
            let mut names = page.items.into_iter();
            if let Some(found) =
                names.find(|name| self.store.profile().table_identity(name) == identity)
            {
                return Ok(Some(found));
            }
            from = Some(match page.continuation {
                Some(next) => next,
                None => return Ok(None),
            });
        }
    }

    /// Returns the same account with another view of its store.
    fn with_store(&self, store: Arc<dyn TableStore>) -> Self {
        let (account, settings, table_lock) = (
            self.account.clone(),
            self.settings.clone(),
            self.table_lock.clone(),
        );
        let Self {
            is_read_only,
            has_public_key,
            ..
        } = *self;
        Self {
            account,
            store,
            settings,
            is_read_only,
            has_public_key,
            table_lock,
        }
    }
}

/// The accounts of a server.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    views: Vec<Views>,
    table_lock: Arc<Mutex<()>>,
}

/// The views of an account.
#[derive(Debug)]
struct Views {
    /// For programs of this library with full rights, which maintain indexes and layouts themselves: all rows.
    programs: Tenant,
    /// For programs of this library with less: the server maintains the indexes.
    guests: Tenant,
    /// For other clients.
    others: Tenant,
}

impl Tenants {
    pub(crate) fn add(&mut self, account: Account, store: Arc<dyn TableStore>) {
        self.views
            .retain(|views| views.programs.account.name() != account.name());
        let programs = Tenant::new(account, Arc::clone(&store), Arc::clone(&self.table_lock));
        let maintainer = maintainer(&store);
        let clients = ClientStore::new(store, maintainer);
        let guests = programs.with_store(Arc::new(clients.clone().for_programs()));
        let others = programs.with_store(Arc::new(clients));
        self.views.push(Views {
            programs,
            guests,
            others,
        });
    }

    /// Returns an account as clients see it that know no manifests.
    pub(crate) fn for_clients(&self, account: &str) -> Option<&Tenant> {
        self.views(account).map(|views| &views.others)
    }

    /// Returns an account with all rows of its store, for programs of this library with full rights.
    pub(crate) fn for_programs(&self, account: &str) -> Option<&Tenant> {
        self.views(account).map(|views| &views.programs)
    }

    /// Returns an account for programs of this library with less than full rights to a table. They do not write past the indexes: with the
    /// right to add one row, a program could plant one that makes other programs write in its name.
    pub(crate) fn for_guests(&self, account: &str) -> Option<&Tenant> {
        self.views(account).map(|views| &views.guests)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.views.iter().map(|views| views.programs.account.name())
    }

    fn views(&self, account: &str) -> Option<&Views> {
        self.views
            .iter()
            .find(|views| views.programs.account.name() == account)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Refuses writes to all accounts.
    pub(crate) fn set_read_only(&mut self) {
        for views in &mut self.views {
            for view in [&mut views.programs, &mut views.guests, &mut views.others] {
                view.is_read_only = true;
            }
        }
    }

    /// Sends a request to the store of each account.
    pub(crate) async fn check_stores(&self) -> table_core::Result<()> {
        for views in &self.views {
            views.programs.settings.check().await?;
        }
        Ok(())
    }

    /// Returns the name of an account that has the emulator's key.
    pub(crate) fn account_with_public_key(&self) -> Option<&str> {
        let public = self
            .views
            .iter()
            .find(|views| views.programs.has_public_key);
        public.map(|views| views.programs.account.name())
    }
}

#[cfg(feature = "indexes")]
fn maintainer(store: &Arc<dyn TableStore>) -> Option<Arc<dyn Maintainer>> {
    match crate::indexes::Indexes::new(Arc::clone(store)) {
        Ok(indexes) => Some(Arc::new(indexes)),
        Err(error) => {
            // `Indexes::new` can only refuse the durations of its leases, which are constants: this cannot happen.
            tracing::error!(target: "table_server", %error, "indexes are not maintained");
            None
        }
    }
}

#[cfg(not(feature = "indexes"))]
fn maintainer(_store: &Arc<dyn TableStore>) -> Option<Arc<dyn Maintainer>> {
    None
}

#[cfg(test)]
mod tests {
    use table_core::memory::MemoryStore;

    use super::*;

    /// Clients write from other processes, so changes of index states must wait for durations from now on.
    #[test]
    fn a_store_with_an_account_is_known_to_be_served() {
        let store = MemoryStore::new();
        let is_served = || {
            store
                .context()
                .local_writers()
                .is_some_and(|writers| writers.is_served())
        };
        assert!(!is_served());
        Tenants::default().add(Account::emulator(), Arc::new(store.clone()));
        assert!(is_served());
    }
}
