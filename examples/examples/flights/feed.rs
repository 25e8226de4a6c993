//! Passes entities from the files to a writer. A separate thread reads them, a few chunks ahead.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::mpsc::{self, Sender};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::Result;
use crate::data::DataSet;

/// Number of entities per chunk.
const CHUNK_ENTITIES: usize = 256;
/// Maximum number of chunks that wait for the writer, so that a slow store bounds the memory.
const WAITING_CHUNKS: usize = 16;

/// Returns the entities that `read` produces, and the result of reading.
pub(crate) fn feed<T: Send + 'static>(
    data: &Arc<DataSet>,
    read: impl FnOnce(&DataSet, &Sender<Vec<T>>) -> Result<()> + Send + 'static,
) -> (BoxStream<'static, T>, JoinHandle<Result<()>>) {
    let (sender, mut receiver) = mpsc::channel(WAITING_CHUNKS);
    let data = Arc::clone(data);
    let reader = spawn_blocking(move || read(&data, &sender));
    let chunks = stream::poll_fn(move |context| receiver.poll_recv(context));
    (chunks.flat_map(stream::iter).boxed(), reader)
}

/// Sends entities until the writer stops.
pub(crate) fn hand_over<T>(sender: &Sender<Vec<T>>, items: impl Iterator<Item = Result<T>>) -> Result<()> {
    let mut chunk = Vec::with_capacity(CHUNK_ENTITIES);
    for item in items {
        chunk.push(item?);
        if chunk.len() == CHUNK_ENTITIES && sender.blocking_send(std::mem::take(&mut chunk)).is_err() {
            // The writer failed and reports its error.
            return Ok(());
        }
    }
    // An error means here too that the writer has failed.
    let _ = sender.blocking_send(chunk);
    Ok(())
}
