//! The blobs of a group of changes.

use table_core::model::{Entity, Key};
use table_core::store::{Outcome, Result};

use super::{EntityWriter, NewBlobs};
use crate::index::IndexedEntities;

/// The blobs that a group of changes stores, and the blobs of the rows that it replaces or removes.
#[derive(Debug)]
pub(crate) struct GroupBlobs {
    writer: EntityWriter,
    new: NewBlobs,
    old: Vec<Entity>,
    now: Vec<Entity>,
}

impl GroupBlobs {
    /// The blobs of a group that starts now. All types of a database have the same blob store.
    pub(crate) fn new(writer: &EntityWriter, indexes: Option<&IndexedEntities>) -> Self {
        Self {
            writer: writer.maintaining(indexes),
            new: NewBlobs::none(),
            old: Vec::new(),
            now: Vec::new(),
        }
    }

    /// The group replaces or removes this row.
    pub(crate) fn replaces(&mut self, old: &Entity) {
        self.old.push(old.clone());
    }

    /// The group writes this row as it is: the blobs that it refers to stay.
    pub(crate) fn keeps(&mut self, now: &Entity) {
        self.now.push(now.clone());
    }

    /// Refuses a row of the writer's type that may not be written, before a blob is stored.
    pub(crate) async fn check(&self, of_type: &EntityWriter, key: &Key) -> Result<()> {
        let of_type = of_type.maintaining(self.writer.indexes());
        of_type.permit(key).await.map(drop)
    }

    /// Stores the large values of a new row of the writer's type in blobs.
    ///
    /// # Errors
    /// A value cannot be stored: [`withdraw`](Self::withdraw) the blobs.
    pub(crate) async fn store(&mut self, of_type: &EntityWriter, new: &mut Entity) -> Result<()> {
        of_type.values().move_out(new, &mut self.new).await?;
        self.now.push(new.clone());
        Ok(())
    }

    /// Removes the blobs of a group that was not written.
    pub(crate) async fn withdraw(&self) {
        self.writer.values().withdraw(&self.new).await;
    }

    /// Writes the group within the write deadline. Then removes the blobs that no row refers to; after an ambiguous outcome they stay for a
    /// collection.
    pub(crate) async fn commit<W>(&self, write: impl Future<Output = Result<W>>) -> Result<W> {
        let written = self.writer.in_time(&self.new, write).await;
        match &written {
            Ok(_) => {
                let (old, now): (Vec<_>, Vec<_>) =
                    (self.old.iter().collect(), self.now.iter().collect());
                self.writer.values().remove_replaced(&old, &now).await;
            }
            Err(error) if error.outcome() == Outcome::NotApplied => self.withdraw().await,
            Err(_) => {}
        }
        written
    }
}
