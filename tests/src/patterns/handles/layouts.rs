//! Handles of entities in other layouts: wide, spread and in time slices.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use table_core::model::{ETag, IfMatch, Ticks};
use table_core::query::{Continuation, Page};
use table_core::store::{BulkSummary, Result};
use table_core::typed::TableEntity;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

use super::costs::{Cells, PLAIN, READS, n};
use super::notes::{Note as _, Spread, UNKNOWN, Untyped, Wider, book};
use super::verbs::{
    Value, Verbs, Version as _, World, common, opened, remove_in, set_unknown_in, sets, unknown,
    unknown_value_in,
};

impl Verbs for WideTable<Wider> {
    type Of = Wider;
    const NAME: &'static str = "`WideTable`";
    const CELLS: Cells = Cells {
        replace_stored: n(1),
        delete_stored: n(1),
        set_update: n(3),
        set_delete: n(3),
        ..READS
    };

    async fn open(world: &World) -> Self {
        let table = Self::new(Arc::clone(&world.store), world.table.clone()).expect("a table");
        opened(table, async |table| table.create_if_missing().await).await
    }

    async fn replace_stored(&self, read: u32, note: &Wider) -> Result<Option<ETag>> {
        let read = self.get_existing(Wider::key_of(read)).await?;
        Ok(self.replace_stored(&read, note).await?.version())
    }

    async fn delete_stored(&self, read: u32) -> Result<()> {
        let read = self.get_existing(Wider::key_of(read)).await?;
        self.delete_stored(&read).await
    }

    common!(|number| Wider::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));

    async fn remove(&self, number: u32) {
        self.delete(Wider::key_of(number), IfMatch::Any)
            .await
            .expect("the note");
    }

    async fn set_unknown(&self, number: u32, value: i32) {
        let key = Wider::key_of(number);
        let unknown_value = self.entities().update(&key, |properties| {
            properties.set(UNKNOWN, value);
            Ok(())
        });
        unknown_value.await.expect("the entity");
    }

    async fn unknown_value(&self, number: u32) -> Option<i32> {
        let found = self
            .entities()
            .get(&Wider::key_of(number))
            .await
            .expect("an answer");
        found.and_then(|found| unknown(&found.value))
    }
}

impl Verbs for SpreadTable<Spread> {
    type Of = Spread;
    const NAME: &'static str = "`SpreadTable`, 4 buckets";
    const CELLS: Cells = Cells {
        move_to: n(4),
        query: n(4),
        set_update: n(6),
        set_delete: n(6),
        ..PLAIN
    };

    async fn open(world: &World) -> Self {
        let table = Self::new(Arc::clone(&world.store), world.table.clone()).expect("a table");
        opened(table, async |table| table.create_if_missing().await).await
    }

    common!(|number| Spread::key_of(number); |table| table.query().partition(book()));
    sets!(|table| table.query().partition(book()));

    async fn remove(&self, number: u32) {
        let key = self
            .stored_key(Spread::key_of(number))
            .expect("a legal key");
        remove_in(&**self.store(), self.name(), key).await;
    }

    async fn set_unknown(&self, number: u32, value: i32) {
        let key = self
            .stored_key(Spread::key_of(number))
            .expect("a legal key");
        set_unknown_in(&**self.store(), self.name(), key, value).await;
    }

    async fn unknown_value(&self, number: u32) -> Option<i32> {
        let key = self
            .stored_key(Spread::key_of(number))
            .expect("a legal key");
        unknown_value_in(&**self.store(), self.name(), key).await
    }
}

/// Ten notes per day.
fn day(number: u32) -> Ticks {
    let day = 1 + number / 10 % 28;
    format!("2013-01-{day:02}T00:00:00Z")
        .parse()
        .expect("a time")
}

impl Verbs for TimeSlices<Untyped> {
    type Of = Untyped;
    const NAME: &'static str = "`TimeSlices`, slices that the handle knows";
    const CELLS: Cells = Cells {
        merge: n(2),
        merge_any: n(2),
        move_to: n(4),
        query: n(2),
        // A page of each of the three slices.
        set_update: n(5),
        set_delete: n(5),
        ..PLAIN
    };

    async fn open(world: &World) -> Self {
        let family = format!("{}x", world.table);
        let time = |note: &Untyped| day(note.number());
        let slices =
            Self::new(Arc::clone(&world.store), &family, Every::Day, time).expect("a family");
        for number in [0, 10, 20] {
            slices.table_for(day(number)).await.expect("a slice");
        }
        slices
    }

    common!(|number| day(number), Untyped::key_of(number); |slices| slices.query().narrow(|query| query.partition(book())));
    sets!(|slices| slices.query().narrow(|query| query.partition(book())));

    async fn remove(&self, number: u32) {
        let table = self.table_for(day(number)).await.expect("the slice");
        remove_in(&**table.store(), table.name(), Untyped::key_of(number)).await;
    }

    async fn set_unknown(&self, number: u32, value: i32) {
        let table = self.table_for(day(number)).await.expect("the slice");
        set_unknown_in(
            &**table.store(),
            table.name(),
            Untyped::key_of(number),
            value,
        )
        .await;
    }

    async fn unknown_value(&self, number: u32) -> Option<i32> {
        let table = self.table_for(day(number)).await.expect("the slice");
        unknown_value_in(&**table.store(), table.name(), Untyped::key_of(number)).await
    }
}
