//! Handles of entities of one row, with and without indexes.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use table_core::model::{ETag, IfMatch};
use table_core::query::{Continuation, Page};
use table_core::store::{BulkSummary, Result};
use table_core::typed::{SerdeTable, TableEntity};
use table_patterns::changes::ChangeTable;
use table_patterns::index::IndexOptions;
use table_patterns::journal::Clearing;
use table_patterns::{Database, Table};

use super::costs::{Cells, LARGE, NO_MOVES, NO_SCHEMA, PLAIN, n};
use super::notes::{Indexed, Large, LargeIndexed, Note as _, Plain, Typed, Untyped, book};
use super::verbs::{
    Value, Verbs, Version as _, World, common, opened, remove_in, set_unknown_in, sets,
    unknown_value_in,
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

/// The verbs of a table with entities of a type.
macro_rules! table_of {
    ($of:ident, $name:literal, $cells:expr) => {
        impl Verbs for Table<$of> {
            type Of = $of;
            const NAME: &'static str = $name;
            const CELLS: Cells = $cells;

            async fn open(world: &World) -> Self {
                open_in(world).await
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

impl Verbs for ChangeTable<Untyped> {
    type Of = Untyped;
    const NAME: &'static str = "`ChangeTable`, a partition that the handle knows";
    const CELLS: Cells = Cells {
        move_to: NO_MOVES,
        ..PLAIN
    };

    async fn open(world: &World) -> Self {
        let table = Self::new(Arc::clone(&world.store), world.table.clone()).expect("a table");
        let table = opened(table, async |table| table.create_if_missing().await).await;
        // Afterwards the handle knows the counter of the partition.
        let first = Untyped::new(999_999, "first", None);
        table.insert(&first).await.expect("a new note");
        assert!(
            table
                .delete_if_exists(Untyped::key_of(999_999))
                .await
                .expect("the note")
        );
        table
    }

    common!(@verbs |number| Untyped::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));

    async fn move_to(&self, _: u32, _: &Self, _: u32) -> Result<()> {
        unreachable!("a table with a change feed has no `move_to`")
    }

    async fn remove(&self, number: u32) {
        let table = self.table();
        remove_in(&**table.store(), table.name(), Untyped::key_of(number)).await;
    }

    async fn set_unknown(&self, number: u32, value: i32) {
        let table = self.table();
        set_unknown_in(
            &**table.store(),
            table.name(),
            Untyped::key_of(number),
            value,
        )
        .await;
    }

    async fn unknown_value(&self, number: u32) -> Option<i32> {
        let table = self.table();
        unknown_value_in(&**table.store(), table.name(), Untyped::key_of(number)).await
    }
}
