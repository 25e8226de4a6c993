//! The blobs of one row under the key that counts now.

use table_core::model::{EdmType, Entity, PropertyRef, ValueRef};
use table_core::store::{Error, ErrorKind, Result};
use table_core::typed::TableEntity;

use super::codec::BlobKey;
use super::reference::{Reference, Told, told};
use super::rewrite::{LargeRewritten, UnreadableBlob};
use super::values::NewBlobs;
use super::{BlobContext, LargeTable};
use crate::blobs;
use crate::rows::conflict::Conflicts;

/// Bytes that tell the key of most blobs, and of every one.
const STARTS: [u64; 2] = [1024, 256 * 1024];

impl<T: TableEntity> LargeTable<T> {
    /// Rewrites what needs it; from the start if another writer was quicker. Nothing, if the row is gone by then.
    pub(super) async fn rewrite_row(
        &self,
        mut row: Entity,
        active: &str,
        counts: bool,
    ) -> Result<LargeRewritten> {
        let mut conflicts = Conflicts::new(self.options().attempts);
        loop {
            match self.rewrite_read(&row, active, counts).await {
                Err(error) => conflicts.wait(error).await?,
                done => return done,
            }
            match self.row(row.key()).await? {
                None => return Ok(LargeRewritten::default()),
                Some(now) => row = now,
            }
        }
    }

    /// One attempt at a row that was read.
    async fn rewrite_read(&self, row: &Entity, active: &str, counts: bool) -> Result<LargeRewritten> {
        let mut found = LargeRewritten { rows: 1, ..LargeRewritten::default() };
        let (mut patch, mut new) = (Entity::from(row.key().clone()), NewBlobs::none());
        for (property, reference) in references(row) {
            found.blobs += 1;
            match self.renew(row, &property, &reference, counts, &mut patch, &mut new).await {
                Ok(Renewed::Left(id)) => found.count(id),
                Ok(Renewed::LeftInPlaintext) => found.plaintext += 1,
                Ok(Renewed::Rewritten) => {
                    found.rewritten += 1;
                    found.count(active.to_owned());
                }
                Err(error) if is_unreadable(&error) => {
                    let (key, property) = (row.key().clone(), property.name().to_owned());
                    found.unreadable.push(UnreadableBlob { key, property, error });
                }
                Err(error) => {
                    self.values().withdraw(&new).await;
                    return Err(error);
                }
            }
        }
        if found.rewritten > 0 {
            self.writer().merge(&new, row, patch).await?;
        }
        Ok(found)
    }

    /// Writes a blob anew if it is under another key than the active one.
    async fn renew(
        &self,
        row: &Entity,
        property: &PropertyRef<'_>,
        reference: &Reference,
        counts: bool,
        patch: &mut Entity,
        new: &mut NewBlobs,
    ) -> Result<Renewed> {
        if self.is_accepted_plaintext(reference) {
            if counts {
                return Ok(Renewed::LeftInPlaintext);
            }
        } else {
            let key = self.key_of(row, property, reference).await?;
            if counts || key.active {
                return Ok(Renewed::Left(key.id));
            }
        }
        let content = self.content(row, property.name(), reference).await?;
        let content = content.ok_or_else(|| self.changed(row))?;
        let context = self.values().context(row.key(), property.name());
        let reference = self.values().put(&context, content).await?;
        new.push(context);
        // A reference is of the other type than its property.
        let declared =
            if matches!(property.value(), ValueRef::Binary(_)) { EdmType::String } else { EdmType::Binary };
        let value = reference.to_value(declared);
        patch.properties_mut().put(property.name(), value.as_ref(), property.is_encrypted());
        Ok(Renewed::Rewritten)
    }

    /// The key that a blob says it is under.
    async fn key_of(
        &self,
        row: &Entity,
        property: &PropertyRef<'_>,
        reference: &Reference,
    ) -> Result<BlobKey> {
        let codec = &self.options().codec;
        let path = self.blob(row, property, reference).path(&self.options().root)?;
        for bytes in STARTS.into_iter().filter(|_| reference.codec == codec.name()) {
            let Some(start) = blobs::start(&**self.blobs(), &path, bytes).await? else {
                self.check_changed(row, property.name(), &path).await?;
                return Err(self.changed(row));
            };
            if let Some(key) = codec.key_of(&start) {
                return Ok(key);
            }
            if (start.len() as u64) < bytes {
                break;
            }
        }
        Err(Error::corrupt(format!(
            "the blob {path} of the codec '{}' does not tell '{}' its key",
            reference.codec,
            codec.name()
        )))
    }

    fn blob(&self, row: &Entity, property: &PropertyRef<'_>, reference: &Reference) -> BlobContext {
        BlobContext::new(self.name(), row.key(), property.name(), reference.id)
    }

    /// Another writer has replaced the row.
    pub(super) fn changed(&self, row: &Entity) -> Error {
        let (table, key) = (self.name().to_string(), row.key().to_string());
        ErrorKind::PreconditionFailed { table, key }.into()
    }
}

/// What became of a blob.
enum Renewed {
    /// It is under the key of this id, as it was.
    Left(String),
    /// It is in plaintext, as it was.
    LeftInPlaintext,
    Rewritten,
}

/// Values in blobs, of whatever type or schema version the row is.
pub(super) fn references(row: &Entity) -> Vec<(PropertyRef<'_>, Reference)> {
    let mut found = Vec::new();
    for property in row.properties() {
        if let Some(Told::Blob(reference)) = told(property.value()) {
            found.push((property, reference));
        }
    }
    found
}

/// Whether the blob itself is at fault: others can be rewritten all the same.
fn is_unreadable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Storage(_) | ErrorKind::Encryption(_) | ErrorKind::Decode(_))
}
