//! Handles of entities of one row, with and without indexes.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use table_core::model::{ETag, IfMatch};
use table_core::query::{Continuation, Page};
use table_core::store::{BulkSummary, Result};
use table_core::typed::{SerdeTable, TableEntity};
use table_patterns::index::IndexOptions;
use table_patterns::journal::Clearing;
use table_patterns::{Database, Table};

use super::costs::{Cells, LARGE, NO_SCHEMA, PLAIN, n};
use super::notes::{
    Indexed, Large, LargeIndexed, Note as _, Plain, Recorded, Typed, Untyped, book,
};
use super::verbs::{
    Value, Verbs, Version as _, World, common, opened, set_unknown_in, sets, unknown_value_in,
};

/// A declared table.
async fn open_in<T: TableEntity>(world: &World) -> Table<T> {
    let options = IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
    let (store, name) = (Arc::clone(&world.store), world.table.clone());
    let db = Database::with_options(store, options).with_blobs(Arc::clone(&world.blobs));
    let table = db.table(name).expect("a table");
    table.declare().await.expect("a new table");
    table
}

/// A declared table that knows the counter of the partition.
async fn open_recorded(world: &World) -> Table<Recorded> {
    let table = open_in::<Recorded>(world).await;
    let first = Recorded::new(999_999, "first", None);
    table.insert(&first).await.expect("a new note");
    let first = Recorded::key_of(999_999);
    assert!(table.delete_if_exists(first).await.expect("the note"));
    table
}

/// The verbs of a table with entities of a type.
macro_rules! table_of {
    ($of:ident, $name:literal, $cells:expr) => {
        table_of!($of, $name, $cells, open_in);
    };
    ($of:ident, $name:literal, $cells:expr, $open:ident) => {
        impl Verbs for Table<$of> {
            type Of = $of;
            const NAME: &'static str = $name;
            const CELLS: Cells = $cells;

            async fn open(world: &World) -> Self {
                $open(world).await
            }

            async fn replace_stored(&self, read: u32, note: &$of) -> Result<Option<ETag>> {
                let read = self.get_existing_stored($of::key_of(read)).await?;
                Ok(self.replace_stored(&read, note).await?.version())
            }

            async fn delete_stored(&self, read: u32) -> Result<()> {
                let read = self.get_existing_stored($of::key_of(read)).await?;
                self.delete_stored(&read).await.map(drop)
            }

            common!(|number| $of::key_of(number); |table| table.query().partition(book()));
            sets!(|table| table.query().partition(book()));
            common!(@rows);
        }
    };
}

table_of!(
    Untyped,
    "`Table`",
    Cells {
        replace_stored: n(1),
        delete_stored: n(1),
        ..PLAIN
    }
);
table_of!(
    Typed,
    "`Table`, a type with `type` or `version`",
    Cells {
        upsert: n(2),
        insert_or_merge: n(2),
        replace_any: n(2),
        merge_any: n(2),
        move_to: n(4),
        replace_stored: n(1),
        delete_stored: n(1),
        ..PLAIN
    }
);
table_of!(
    Indexed,
    "`Table`, entries in the partition",
    Cells {
        merge: n(1),
        ..LARGE
    }
);
table_of!(Large, "`Table`, a type with large fields", LARGE);
table_of!(
    LargeIndexed,
    "`Table`, a type with large fields, entries in the partition",
    LARGE
);
table_of!(
    Recorded,
    "`Table`, a type with a feed, a partition whose counter the handle knows",
    LARGE,
    open_recorded
);

impl Verbs for SerdeTable<Plain> {
    type Of = Plain;
    const NAME: &'static str = "`SerdeTable`";
    const CELLS: Cells = Cells {
        set_update: NO_SCHEMA,
        set_delete: NO_SCHEMA,
        ..PLAIN
    };

    async fn open(world: &World) -> Self {
        let table = Self::new(Arc::clone(&world.store), world.table.clone()).expect("a table");
        opened(table, async |table| table.create_if_missing().await).await
    }

    common!(|number| Plain::key_of(number); |table| table.query().partition(book()));

    async fn set_update(
        &self,
        _: impl Fn(&mut Self::Of) -> Result<()> + Send + Sync,
    ) -> Result<BulkSummary> {
        unreachable!("a table of serde types has no set operations")
    }

    async fn set_delete(&self) -> Result<BulkSummary> {
        unreachable!("a table of serde types has no set operations")
    }
    common!(@rows);
}
