//! Programs that store one type in one layout, with the verbs that the matrix's rows of several programs need.

use std::fmt::Debug;

use table_core::prelude::*;
use table_core::store::{BulkSummary, Result};
use table_core::typed::Upgrade;

use crate::world::{Upkeep, World};

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

/// Implements [`Program`] for a handle of each type. `$open` opens it in the world, `$value` is the entity of a read.
macro_rules! program {
    ($table:ident [$($of:ty),*], |$world:ident| $open:expr, |$got:ident| $value:expr) => {$(
        impl $crate::programs::Program for $table<$of> {
            type Of = $of;

            async fn open($world: &$crate::world::World) -> table_core::Result<Self> {
                $open
            }

            async fn put(&self, subject: &$of) -> table_core::Result<()> {
                self.insert(subject).await.map(drop)
            }

            async fn read(&self, r: u32) -> table_core::Result<Option<$of>> {
                let key = <$of as $crate::programs::Subject>::key_of(r);
                Ok(self.get(&key).await?.map(|$got| $value))
            }

            async fn numbers(&self) -> table_core::Result<Vec<u32>> {
                let all = self.query().partition(PartitionKey::new("p")?).all().await?;
                Ok(all.iter().map(|subject| subject.number()).collect())
            }

            async fn change(&self, r: u32, change: impl Fn(&mut $of) + Send + Sync) -> table_core::Result<()> {
                let key = <$of as $crate::programs::Subject>::key_of(r);
                let change = |subject: &mut $of| {
                    change(subject);
                    Ok(())
                };
                self.update(&key, change).await.map(drop)
            }

            async fn delete_set(&self) -> table_core::Result<table_core::store::BulkSummary> {
                self.query().partition(PartitionKey::new("p")?).delete().await
            }

            async fn rename_set(&self, name: &str) -> table_core::Result<table_core::store::BulkSummary> {
                let rename = |subject: &mut $of| {
                    let name = format!("{name}{}", subject.number());
                    subject.rename(&name);
                    Ok(())
                };
                self.query().partition(PartitionKey::new("p")?).update(rename).await
            }

            fn upgrade(&self) -> table_core::typed::Upgrade<$of> {
                self.upgrade()
            }

            fn seeing_all(&self) -> Self {
                self.clone().with_hidden()
            }
        }
    )*};
}

/// Opens a handle and creates its table.
macro_rules! opened {
    ($open:expr) => {{
        let opened = $open?;
        opened.create_if_missing().await?;
        Ok(opened)
    }};
}

/// Implements [`Program`] for types of a layout without indexes, of large entities with and without, and of indexed entities.
macro_rules! programs {
    (Large [$($of:ty),*]) => {
        $crate::programs::program!(
            LargeTable [$($of),*],
            |w| $crate::programs::opened!(LargeTable::new_with(w.store.clone(), w.table(TABLE), w.blobs.clone(), w.large())),
            |got| got
        );
    };
    (LargeIndexed [$($of:ty),*]) => {
        $crate::programs::program!(
            LargeTable [$($of),*],
            |w| {
                let (store, blobs, options) = (w.store.clone(), w.blobs.clone(), w.options.clone());
                LargeTable::open(store, w.table(TABLE), blobs, w.large(), options).await
            },
            |got| got
        );
    };
    (Table [$($of:ty),*]) => {
        $crate::programs::program!(
            Table [$($of),*],
            |w| {
                let db = table_patterns::Database::with_options(w.store.clone(), w.options.clone());
                let table = db.table(w.table(TABLE))?;
                table.declare().await?;
                Ok(table)
            },
            |got| got
        );
    };
    (Wide [$($of:ty),*]) => {
        $crate::programs::program!(
            WideTable [$($of),*],
            |w| $crate::programs::opened!(WideTable::new(w.store.clone(), w.table(TABLE))),
            |got| got.into_inner()
        );
    };
    ($table:ident [$($of:ty),*]) => {
        $crate::programs::program!(
            $table [$($of),*],
            |w| $crate::programs::opened!($table::new(w.store.clone(), w.table(TABLE))),
            |got| got
        );
    };
}

pub(crate) use {opened, program, programs};
