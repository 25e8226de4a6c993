//! Writing what changed, in one group transaction.

use std::collections::BTreeMap;

use table_core::model::{Entity, IfMatch, Key, Properties};
use table_core::store::{Error, ErrorKind, GroupTransaction, Operation, Result, Written};

use super::chunk::place;
use super::rows::{Chunk, Stored, new_write, prefix, row_key};
use super::{Wide, WideEntities};
use crate::rows::conflict::{told_of, without_etag};
use crate::rows::encrypted::marked_by_rule;
use crate::rows::plain::permit_whole;

impl WideEntities {
    /// Makes `properties` the entity's, from the state that was read, in one group transaction.
    pub(super) async fn write(
        &self,
        old: Option<&Stored>,
        key: &Key,
        properties: &Properties,
    ) -> Result<Wide<Entity>> {
        let prefix = prefix(key, self.profile());
        // A rule by row knows the entity's key, not those of its rows.
        let properties = &*marked_by_rule(&*self.reader.store, &self.reader.table, key, properties);
        let mut new = renewed(old, key, place(old, properties)?);
        if old.is_some() && self.check_whole(&new, &prefix).is_err() {
            // Where properties stayed in their rows, there may be room: packed anew they may fit.
            new = renewed(old, key, place(None, properties)?);
        }
        self.check_whole(&new, &prefix)?;
        let group = self.group(old, &new, &prefix)?;
        let (store, table) = (&*self.reader.store, &self.reader.table);
        let _permitted = permit_whole(store, table, || new.to_entity()).await?;
        let written = store.transact(table, group).await;
        let written = written.map_err(|error| too_large(key, told_of(key, error)))?;
        new.etag = written.into_iter().next().and_then(|head: Written| head.etag);
        match new.etag {
            Some(_) => Ok(Wide::from(new)),
            None => self.get(key).await?.ok_or_else(|| self.missing(key)),
        }
    }

    /// What changes: the head first, whose version decides, then the chunks.
    fn group(&self, old: Option<&Stored>, new: &Stored, prefix: &str) -> Result<GroupTransaction> {
        let mut group = GroupTransaction::new(new.key.partition_key(), self.profile());
        let head = new.head(prefix)?;
        group.push(match old {
            Some(old) => Operation::Replace(head, version(old)?),
            None => Operation::Insert(head),
        })?;
        for (number, chunk) in new.chunks.iter().filter(|(_, chunk)| chunk.write == new.write) {
            group.push(Operation::InsertOrReplace(chunk.to_entity(self.row(new, prefix, *number)?)))?;
        }
        for (number, _) in old.into_iter().flat_map(|old| &old.chunks) {
            if !new.chunks.contains_key(number) {
                group.push(Operation::Delete(self.row(new, prefix, *number)?, IfMatch::Any))?;
            }
        }
        Ok(group)
    }

    /// Refuses what one group could not write as a whole: it could never be moved, or restored, in one piece.
    fn check_whole(&self, new: &Stored, prefix: &str) -> Result<()> {
        let mut whole = GroupTransaction::new(new.key.partition_key(), self.profile());
        whole.push(Operation::Insert(new.head(prefix)?))?;
        for (number, chunk) in &new.chunks {
            let row = chunk.to_entity(self.row(new, prefix, *number)?);
            whole.push(Operation::Insert(row)).map_err(|error| too_large(&new.key, error))?;
        }
        Ok(())
    }

    pub(super) fn row(&self, stored: &Stored, prefix: &str, number: u16) -> Result<Key> {
        row_key(stored.key.partition(), prefix, number)
    }
}

/// The state after a write: chunks that stay as they are keep the write that made them.
fn renewed(old: Option<&Stored>, key: &Key, rows: BTreeMap<u16, Properties>) -> Stored {
    let write = new_write();
    let chunk = |(number, properties): (u16, Properties)| {
        let same = old.and_then(|old| old.chunks.get(&number)).filter(|chunk| chunk.properties == properties);
        let write = same.map_or_else(|| write.clone(), |chunk| chunk.write.clone());
        (number, Chunk { write, properties })
    };
    let chunks = rows.into_iter().map(chunk).collect();
    Stored { key: key.clone(), etag: None, timestamp: None, write, chunks }
}

/// The head's version, which decides.
pub(super) fn version(stored: &Stored) -> Result<IfMatch> {
    let etag = stored.etag.clone().map(IfMatch::Exactly);
    etag.ok_or_else(|| without_etag(&stored.key))
}

fn too_large(key: &Key, error: Error) -> Error {
    let ErrorKind::LimitExceeded { what, allowed, actual } = error.kind() else { return error };
    let what = format!(
        "the wide entity {key} is written in one piece, and {what} are limited; keep its large values in blobs, by \
         the large entities pattern"
    );
    Error::limit(what, *allowed, *actual)
}
