//! Stores buffers as blobs.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions};
use table_core::store::Result;
use uuid::Uuid;

use super::LogFormat;
use super::buffer::Buffer;
use super::entry::Header;
use super::name::{number, parse, path};
use crate::blobs::{self, blob_error};

/// The only one that stores what a writer has; moved into each flush.
pub(super) struct Saver {
    blobs: Arc<dyn ObjectStore>,
    format: LogFormat,
    writer: Uuid,
    /// The directory written last, and its next number.
    next: Option<(String, u32)>,
}

impl Saver {
    pub(super) fn new(blobs: Arc<dyn ObjectStore>, format: LogFormat) -> Self {
        Self { blobs, format, writer: Uuid::new_v4(), next: None }
    }

    /// Stores buffers in their order, up to the first that fails, and returns those that are left.
    pub(super) async fn store(
        mut self,
        mut buffers: VecDeque<Buffer>,
    ) -> (Self, VecDeque<Buffer>, Result<()>) {
        while let Some(buffer) = buffers.front() {
            if let Err(error) = self.create(buffer).await {
                return (self, buffers, Err(error));
            }
            buffers.pop_front();
        }
        (self, buffers, Ok(()))
    }

    fn content(&self, buffer: &Buffer) -> Result<Bytes> {
        let header = Header {
            log: 1,
            first: buffer.first.to_string(),
            last: buffer.last.to_string(),
            records: buffer.records,
            writer: self.writer,
            flush: buffer.flush,
        };
        Ok((header.line(self.format)? + &buffer.text).into())
    }

    /// Creates a blob under the next free number.
    async fn create(&mut self, buffer: &Buffer) -> Result<()> {
        let (place, content) = (buffer.directory.clone(), self.content(buffer)?);
        let mut next = match self.next.take() {
            Some((known, next)) if known == place => next,
            _ => self.first_free(&place).await?,
        };
        loop {
            match self.create_as(&place, next, buffer.flush, &content).await {
                Ok(true) => break,
                Ok(false) => next += 1,
                Err(error) => {
                    // The same number again: if an answer alone was lost, the blob is found to be ours.
                    self.next = Some((place, next));
                    return Err(error);
                }
            }
        }
        self.next = Some((place, next + 1));
        Ok(())
    }

    /// Creates a blob under a number, unless an earlier attempt has; `false` if the number is another writer's.
    async fn create_as(&self, place: &str, number: u32, flush: u64, content: &Bytes) -> Result<bool> {
        let path = path(place, number)?;
        let options = PutOptions::from(PutMode::Create);
        match self.blobs.put_opts(&path, content.clone().into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => self.is_ours(&path, flush).await,
            Err(error) => Err(blob_error(error)),
        }
    }

    async fn first_free(&self, place: &str) -> Result<u32> {
        let directory = parse(place)?;
        let mut names = self.blobs.list(Some(&directory));
        let mut last = 0;
        while let Some(blob) = names.try_next().await.map_err(blob_error)? {
            last = last.max(number(&blob.location).unwrap_or_default());
        }
        Ok(last + 1)
    }

    /// Whether an earlier attempt, whose answer was lost, wrote this blob.
    async fn is_ours(&self, path: &Path, flush: u64) -> Result<bool> {
        let Some(content) = blobs::open(&*self.blobs, path).await? else { return Ok(false) };
        let bytes = content.try_fold(Vec::new(), |mut all, piece| async move {
            all.extend_from_slice(&piece);
            Ok(all)
        });
        let text = String::from_utf8_lossy(&bytes.await?).into_owned();
        let header = text.lines().next().and_then(Header::parse);
        Ok(header.is_some_and(|(header, _)| header.writer == self.writer && header.flush == flush))
    }
}
