//! A hostile store between the service and its reader: it records the written rows, and gives wrong answers on
//! request.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use table_core::model::{ETag, Entity, Key, TableName};
use table_core::query::{Continuation, Query, ReadablePage, Select};
use table_core::store::{GroupTransaction, Operation, Result, TableStore, Written};

use super::shows;
use crate::wrappers::{StoreWrapper, impl_table_store};

/// A wrong answer.
#[derive(Clone, Debug)]
pub(super) enum WrongAnswer {
    /// A get returns the entity with this key.
    OtherEntity(Key),
    /// A query returns the rows of another table, without its filter.
    OtherTable(TableName),
    /// A query returns its entities with this outdated ETag; a get returns the entity with this key.
    Stale(ETag, Key),
}

/// A store that records all writes and can give wrong answers.
pub(super) struct TamperingStore {
    store: Arc<dyn TableStore>,
    wrong: Mutex<Option<WrongAnswer>>,
    written: Mutex<Vec<Entity>>,
}

impl TamperingStore {
    pub(super) fn wrap(store: &Arc<dyn TableStore>) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            wrong: Mutex::default(),
            written: Mutex::default(),
        })
    }

    pub(super) fn answer_with(&self, wrong: WrongAnswer) {
        *self.wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(wrong);
    }

    fn wrong_answer(&self) -> Option<WrongAnswer> {
        self.wrong
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(&self, operation: &Operation) {
        let row = operation
            .entity()
            .cloned()
            .unwrap_or_else(|| Entity::from(operation.key().clone()));
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(row);
    }

    /// Asserts that no row written so far contains one of the texts, in a key or in a value.
    pub(super) fn assert_never_sent(&self, texts: &[&str]) {
        for row in &*self.written.lock().unwrap_or_else(PoisonError::into_inner) {
            assert_eq!(shows(row, texts), None, "{}", row.key());
        }
    }
}

impl fmt::Debug for TamperingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TamperingStore")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl StoreWrapper for TamperingStore {
    fn inner(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        match self.wrong_answer() {
            Some(WrongAnswer::OtherEntity(other) | WrongAnswer::Stale(_, other)) => {
                self.store.get(table, &other, select).await
            }
            _ => self.store.get(table, key, select).await,
        }
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        match self.wrong_answer() {
            Some(WrongAnswer::OtherTable(other)) => {
                let query = Query {
                    filter: None,
                    ..query.clone()
                };
                self.store.query(&other, &query, from).await
            }
            Some(WrongAnswer::Stale(etag, _)) => {
                let found = self.store.query(table, query, from).await?;
                Ok(found.map(|entity| entity.with_system(Some(etag.clone()), None)))
            }
            _ => self.store.query(table, query, from).await,
        }
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.note(&operation);
        self.store.write(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        group
            .operations()
            .iter()
            .for_each(|operation| self.note(operation));
        self.store.transact(table, group).await
    }
}

impl_table_store!(TamperingStore);
