//! Groups of one operation, as handles.

use std::sync::{Arc, Mutex};

use table_core::model::{ETag, IfMatch};
use table_core::query::{Continuation, Page};
use table_core::store::{BulkSummary, Result};
use table_core::typed::TableEntity;
use table_patterns::{Group, Table};

use super::costs::{Cells, LARGE, n, of_group};
use super::notes::{Indexed, Large, LargeIndexed, Note, Typed, book};
use super::verbs::{Verbs, Version as _, World};

/// The verbs of a handle as groups of one operation, which `of` commits.
macro_rules! grouped {
    () => {
        async fn insert(&self, note: &Self::Of) -> Result<Option<ETag>> {
            self.of(|group| group.insert(note).map(drop)).await
        }

        async fn upsert(&self, note: &Self::Of) -> Result<Option<ETag>> {
            self.of(|group| group.upsert(note).map(drop)).await
        }

        async fn insert_or_merge(&self, note: &Self::Of) -> Result<Option<ETag>> {
            self.of(|group| group.insert_or_merge(note).map(drop)).await
        }

        async fn replace(&self, note: &Self::Of) -> Result<Option<ETag>> {
            self.of(|group| group.replace(note).map(drop)).await
        }

        async fn replace_if(&self, note: &Self::Of, version: IfMatch) -> Result<Option<ETag>> {
            self.of(|group| group.replace_if(note, version).map(drop))
                .await
        }

        async fn merge(
            &self,
            number: u32,
            patch: &<Self::Of as TableEntity>::Patch,
            version: IfMatch,
        ) -> Result<Option<ETag>> {
            self.of(|group| {
                group
                    .merge(Self::Of::key_of(number), patch, version)
                    .map(drop)
            })
            .await
        }

        async fn update(
            &self,
            number: u32,
            mut change: impl FnMut(&mut Self::Of) -> Result<()> + Send + 'static,
        ) -> Result<Self::Of> {
            let seen = Arc::new(Mutex::new(None));
            let changed = Arc::clone(&seen);
            let change = move |note: &mut Self::Of| {
                change(note)?;
                *changed.lock().expect("no panic") = Some(note.clone());
                Ok(())
            };
            let version = self
                .of(|group| group.update(Self::Of::key_of(number), change).map(drop))
                .await?;
            let note = seen
                .lock()
                .expect("no panic")
                .take()
                .expect("a committed change");
            Ok(note.with_etag(version))
        }

        async fn delete(&self, number: u32, version: IfMatch) -> Result<()> {
            self.of(|group| group.delete(Self::Of::key_of(number), version).map(drop))
                .await
                .map(drop)
        }

        async fn delete_if_exists(&self, _: u32) -> Result<bool> {
            unreachable!("a group has no `delete_if_exists`")
        }

        async fn get(&self, number: u32) -> Result<Option<Self::Of>> {
            Verbs::get(&self.0, number).await
        }

        async fn get_existing(&self, number: u32) -> Result<Self::Of> {
            Verbs::get_existing(&self.0, number).await
        }

        async fn move_to(&self, _: u32, _: &Self, _: u32) -> Result<()> {
            unreachable!("a group has no `move_to`")
        }

        async fn all(&self, _: Option<usize>) -> Result<Vec<Self::Of>> {
            unreachable!("a group has no `query`")
        }

        async fn streamed(&self, _: Option<usize>) -> Result<Vec<Self::Of>> {
            unreachable!("a group has no `query`")
        }

        async fn first(&self) -> Result<Option<Self::Of>> {
            unreachable!("a group has no `query`")
        }

        async fn count(&self, _: Option<usize>) -> Result<usize> {
            unreachable!("a group has no `query`")
        }

        async fn page(&self, _: usize, _: Option<&Continuation>) -> Result<Page<Self::Of>> {
            unreachable!("a group has no `query`")
        }

        async fn set_update(
            &self,
            _: impl Fn(&mut Self::Of) -> Result<()> + Send + Sync,
        ) -> Result<BulkSummary> {
            unreachable!("a group has no `query`")
        }

        async fn set_delete(&self) -> Result<BulkSummary> {
            unreachable!("a group has no `query`")
        }

        fn with_attempts(self, _: u32) -> Self {
            unreachable!("a group makes one attempt")
        }

        async fn remove(&self, number: u32) {
            self.0.remove(number).await;
        }

        async fn set_unknown(&self, number: u32, value: i32) {
            self.0.set_unknown(number, value).await;
        }

        async fn unknown_value(&self, number: u32) -> Option<i32> {
            self.0.unknown_value(number).await
        }
    };
}

/// Each verb as a group of one operation.
pub(crate) struct GroupOf<T>(Table<T>);

impl<T: TableEntity> GroupOf<T> {
    async fn of(&self, add: impl FnOnce(&mut Group<T>) -> Result<()>) -> Result<Option<ETag>>
    where
        T: Note,
    {
        let mut group = self.0.group(book());
        add(&mut group)?;
        Ok(group.commit().await?.version())
    }
}

/// The verbs of a group with entities of a type.
macro_rules! group_of {
    ($of:ident, $name:literal, $cells:expr) => {
        impl Verbs for GroupOf<$of> {
            type Of = $of;
            const NAME: &'static str = $name;
            const CELLS: Cells = of_group($cells);
            const REPEATS_UPDATES: bool = false;

            async fn open(world: &World) -> Self {
                Self(<Table<$of> as Verbs>::open(world).await)
            }

            async fn replace_stored(&self, read: u32, note: &$of) -> Result<Option<ETag>> {
                let read = self.0.get_existing_stored($of::key_of(read)).await?;
                self.of(|group| group.replace_stored(&read, note).map(drop))
                    .await
            }

            async fn delete_stored(&self, read: u32) -> Result<()> {
                let read = self.0.get_existing_stored($of::key_of(read)).await?;
                self.of(|group| group.delete_stored(&read).map(drop))
                    .await
                    .map(drop)
            }

            grouped!();
        }
    };
}

group_of!(
    Typed,
    "`Group`, a type with `type` or `version`",
    <Table<Typed> as Verbs>::CELLS
);
group_of!(
    Indexed,
    "`Group`, entries in the partition",
    Cells {
        merge: n(2),
        merge_any: n(2),
        ..<Table<Indexed> as Verbs>::CELLS
    }
);
group_of!(Large, "`Group`, a type with large fields", LARGE);
group_of!(
    LargeIndexed,
    "`Group`, a type with large fields, entries in the partition",
    LARGE
);
