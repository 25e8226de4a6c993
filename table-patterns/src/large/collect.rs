use std::time::Duration;

use chrono::TimeDelta;
use futures_util::TryStreamExt;
use object_store::ObjectMeta;
use table_core::model::{Entity, Key};
use table_core::query::Select;
use table_core::store::{Error, Result, TableStore as _};
use table_core::typed::TableEntity;

use super::place::directory;
use super::reference::{Told, told};
use super::row::large;
use super::{BlobContext, LargeTable};
use crate::blob::{self, blob_error};

/// Whether a collection removes what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectMode {
    /// Counts only.
    Report,
    /// Removes orphans.
    Remove,
}

/// What a collection found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Blobs that a row refers to.
    pub used: u64,
    /// Blobs younger than the grace period, not looked at.
    pub young: u64,
    /// Blobs that no row refers to.
    pub orphans: u64,
    /// Blobs that this library did not name; they stay.
    pub foreign: u64,
}

/// The row looked at last: the names of its blobs come together.
#[derive(Default)]
struct Seen {
    key: Option<Key>,
    row: Option<Entity>,
    /// The properties that were asked for.
    properties: Vec<String>,
}

impl Seen {
    fn knows(&self, context: &BlobContext) -> bool {
        self.key.as_ref() == Some(&context.key) && self.properties.contains(&context.property)
    }

    /// Whether the row refers to the blob. What cannot be read may be a reference of a version to come.
    fn uses(&self, context: &BlobContext) -> bool {
        let value = self.row.as_ref().and_then(|row| row.get(&context.property));
        match value.and_then(told) {
            Some(Told::Blob(reference)) => reference.id == context.id,
            Some(Told::Unreadable) => true,
            None => false,
        }
    }
}

impl<T: TableEntity> LargeTable<T> {
    /// Finds blobs that are older than `grace` and that no row refers to, and removes them if asked. It goes
    /// by what the rows say, of whatever type or schema version they are: blobs of the table's other types are looked
    /// after too.
    ///
    /// One request for each entity with old blobs, and at most one more for each of its properties that is no large one of
    /// `T`; three for the blob store's time, one per page of names and one per orphan. Run it as often as orphans
    /// may pile up; several at once do no harm.
    ///
    /// # Errors
    /// The stores'. `grace` is not longer than the write deadline: it would take blobs of writes in flight.
    pub async fn collect(&self, grace: Duration, mode: CollectMode) -> Result<Collected> {
        let deadline = self.options().write_deadline;
        if grace <= deadline {
            return Err(Error::invalid_request(format!(
                "a grace period of {grace:?} is not longer than the write deadline, {deadline:?}: blobs of writes \
                 in flight would be removed"
            )));
        }
        self.collect_older(grace, mode).await
    }

    /// The same without a check: for times when nobody writes.
    pub(super) async fn collect_older(&self, grace: Duration, mode: CollectMode) -> Result<Collected> {
        let directory = directory(&self.options().root, self.name())?;
        let now = blob::store_time(&**self.blobs(), &directory).await?;
        let grace = TimeDelta::from_std(grace).unwrap_or(TimeDelta::MAX);
        let mut names = self.blobs().list(Some(&directory));
        let (mut found, mut seen) = (Collected::default(), Seen::default());
        while let Some(blob) = names.try_next().await.map_err(blob_error)? {
            if now.signed_duration_since(blob.last_modified) < grace {
                found.young += 1;
            } else {
                self.judge(&blob, mode, &mut found, &mut seen).await?;
            }
        }
        Ok(found)
    }

    async fn judge(
        &self,
        blob: &ObjectMeta,
        mode: CollectMode,
        found: &mut Collected,
        seen: &mut Seen,
    ) -> Result<()> {
        let Some(context) = BlobContext::parse(&self.options().root, self.name(), &blob.location) else {
            found.foreign += 1;
            return Ok(());
        };
        if !seen.knows(&context) {
            *seen = self.look(&context).await?;
        }
        if seen.uses(&context) {
            found.used += 1;
            return Ok(());
        }
        found.orphans += 1;
        match mode {
            CollectMode::Report => Ok(()),
            CollectMode::Remove => blob::delete(&**self.blobs(), &blob.location).await,
        }
    }

    /// What a row says of a blob's property, and of the large ones of `T`. One request.
    async fn look(&self, context: &BlobContext) -> Result<Seen> {
        let mut properties: Vec<_> = large::<T>().map(|property| property.name.to_owned()).collect();
        if !properties.contains(&context.property) {
            properties.push(context.property.clone());
        }
        let row = self.store().get(self.name(), &context.key, Some(&Select::new(&properties))).await?;
        Ok(Seen { key: Some(context.key.clone()), row, properties })
    }
}
