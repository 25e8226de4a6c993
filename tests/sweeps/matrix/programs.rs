//! Programs that store one type in one layout, with the verbs that the matrix's rows of several programs need.

use std::fmt::Debug;

use table_core::prelude::*;
use table_core::store::{BulkSummary, Result};
use table_core::typed::Upgrade;
use table_patterns::Table;
use table_patterns::spread::SpreadTable;
use table_patterns::wide::WideTable;

use crate::world::{TABLE, Upkeep, World, declared, opened};

/// An entity in the partition `p`.
pub(crate) trait Subject: TableEntity + Clone + Debug + PartialEq {
    fn key_of(r: u32) -> Key;
    fn number(&self) -> u32;
    fn rename(&mut self, name: &str);
}

/// A program that writes entities of a type in one layout.
#[allow(async_fn_in_trait, reason = "the tests run on one task")]
pub(crate) trait Program: Upkeep + Clone {
    type Of: Subject;

    async fn open(world: &World) -> Result<Self>;
    async fn put(&self, subject: &Self::Of) -> Result<()>;
    async fn read(&self, r: u32) -> Result<Option<Self::Of>>;
    /// The numbers of all entities.
    async fn numbers(&self) -> Result<Vec<u32>>;
    async fn change(&self, r: u32, change: impl Fn(&mut Self::Of) + Send + Sync) -> Result<()>;
    async fn delete_set(&self) -> Result<BulkSummary>;
    /// Gives every entity this name and its number.
    async fn rename_set(&self, name: &str) -> Result<BulkSummary>;
    fn upgrade(&self) -> Upgrade<Self::Of>;
    /// The same program, which sees what has expired.
    fn seeing_all(&self) -> Self;
}

/// Implements [`Program`] for a handle. `$open` opens it in the world, `$value` is the entity of a read.
macro_rules! program {
    ($table:ident, |$world:ident| $open:expr, |$got:ident| $value:expr) => {
        impl<T: Subject> Program for $table<T> {
            type Of = T;

            async fn open($world: &World) -> Result<Self> {
                $open
            }

            async fn put(&self, subject: &T) -> Result<()> {
                self.insert(subject).await.map(drop)
            }

            async fn read(&self, r: u32) -> Result<Option<T>> {
                Ok(self.get(&T::key_of(r)).await?.map(|$got| $value))
            }

            async fn numbers(&self) -> Result<Vec<u32>> {
                let all = self
                    .query()
                    .partition(PartitionKey::new("p")?)
                    .all()
                    .await?;
                Ok(all.iter().map(|subject| subject.number()).collect())
            }

            async fn change(&self, r: u32, change: impl Fn(&mut T) + Send + Sync) -> Result<()> {
                let change = |subject: &mut T| {
                    change(subject);
                    Ok(())
                };
                self.update(&T::key_of(r), change).await.map(drop)
            }

            async fn delete_set(&self) -> Result<BulkSummary> {
                self.query()
                    .partition(PartitionKey::new("p")?)
                    .delete()
                    .await
            }

            async fn rename_set(&self, name: &str) -> Result<BulkSummary> {
                let rename = |subject: &mut T| {
                    let name = format!("{name}{}", subject.number());
                    subject.rename(&name);
                    Ok(())
                };
                self.query()
                    .partition(PartitionKey::new("p")?)
                    .update(rename)
                    .await
            }

            fn upgrade(&self) -> Upgrade<T> {
                self.upgrade()
            }

            fn seeing_all(&self) -> Self {
                self.clone().with_hidden()
            }
        }
    };
}

program!(Table, |w| declared(w, w.table(TABLE)).await, |got| got);
program!(
    SpreadTable,
    |w| opened!(SpreadTable::new(w.store.clone(), w.table(TABLE))),
    |got| got
);
program!(
    WideTable,
    |w| opened!(WideTable::new(w.store.clone(), w.table(TABLE))),
    |got| got.into_inner()
);
