//! Settings of the service: stored access policies and the account's properties. They are rows of a hidden
//! table in the account's own store, so they are as durable as the entities.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use table_core::Result;
use table_core::model::{Entity, IfMatch, Key, SERVER_TABLE, TableName, ValueRef};
use table_core::store::{Error, Operation, TableStore};

/// The table of the settings. Clients cannot use this name.
const TABLE: &str = SERVER_TABLE;
const VALUE: &str = "Value";

/// Whether a table is the server's own.
pub(crate) fn is_hidden_table(table: &TableName) -> bool {
    table.is_server_table()
}

#[derive(Debug)]
pub(crate) struct Settings {
    store: Arc<dyn TableStore>,
}

/// A setting: its kind and the object that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting<'a> {
    Policies(&'a TableName),
    Properties,
}

impl Setting<'_> {
    fn key(self) -> Result<Key> {
        match self {
            Self::Policies(table) => Key::new("policies", table.to_lowercase()),
            Self::Properties => Key::new("properties", ""),
        }
    }
}

impl Settings {
    pub(crate) fn new(store: Arc<dyn TableStore>) -> Self {
        Self { store }
    }

    /// Returns a setting, or its default if it was never set.
    pub(crate) async fn get<T: DeserializeOwned + Default>(
        &self,
        setting: Setting<'_>,
    ) -> Result<T> {
        let found = match self.store.get(&table()?, &setting.key()?, None).await {
            Err(e) if e.is_table_not_found() => None,
            other => other?,
        };
        let Some(entity) = found else {
            return Ok(T::default());
        };
        let Some(ValueRef::String(text)) = entity.get(VALUE) else {
            return Err(damaged(setting));
        };
        serde_json::from_str(text).map_err(|_| damaged(setting))
    }

    /// Asks the store for the table of the settings, which it need not have.
    pub(crate) async fn check(&self) -> Result<()> {
        self.store.list_tables(Some(TABLE), None).await.map(drop)
    }

    pub(crate) async fn set<T: Serialize>(&self, setting: Setting<'_>, value: &T) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|e| Error::corrupt(e.to_string()))?;
        let entity = Entity::from(setting.key()?).with(VALUE, text);
        let (table, operation) = (table()?, Operation::InsertOrReplace(entity));
        // The write first: the table exists after the first setting, so the usual cost is 1 request.
        match self.store.write(&table, operation.clone()).await {
            Err(e) if e.is_table_not_found() => {}
            other => return other.map(drop),
        }
        match self.store.create_table(&table).await {
            // Another request may have created the table in between.
            Err(e) if !e.is_already_exists() => return Err(e),
            _ => {}
        }
        self.store.write(&table, operation).await.map(drop)
    }

    pub(crate) async fn remove(&self, setting: Setting<'_>) -> Result<()> {
        match self
            .store
            .write(&table()?, Operation::Delete(setting.key()?, IfMatch::Any))
            .await
        {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }
}

fn table() -> Result<TableName> {
    TableName::new(TABLE)
}

fn damaged(setting: Setting<'_>) -> Error {
    Error::corrupt(format!("the server's setting {setting:?} cannot be read"))
}
