//! Passes entities from the files to a writer. A separate thread reads them, a few chunks ahead.

use std::sync::Arc;

use examples::Result;
use examples::data::DataSet;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::mpsc::{self, Sender};
use tokio::task::{JoinHandle, spawn_blocking};

/// Number of entities per chunk.
const CHUNK_ENTITIES: usize = 256;
/// Maximum number of chunks that wait for the writer, so that a slow store bounds the memory.
const WAITING_CHUNKS: usize = 16;

/// Returns the entities that `read` produces, and the result of reading.
pub(crate) fn read_in_background<T: Send + 'static>(
    data: &Arc<DataSet>,
    read: impl FnOnce(&DataSet, &Sender<Vec<T>>) -> Result<()> + Send + 'static,
) -> (BoxStream<'static, T>, JoinHandle<Result<()>>) {
    let (sender, mut receiver) = mpsc::channel(WAITING_CHUNKS);
    let data = Arc::clone(data);
    let reader = spawn_blocking(move || read(&data, &sender));
    let chunks = stream::poll_fn(move |context| receiver.poll_recv(context));
    (chunks.flat_map(stream::iter).boxed(), reader)
}

/// Sends entities in chunks to the writer. Stops without an error if the writer has failed, because the writer reports its own error.
pub(crate) fn send_chunks<T>(
    sender: &Sender<Vec<T>>,
    items: impl Iterator<Item = Result<T>>,
) -> Result<()> {
    let mut chunk = Vec::with_capacity(CHUNK_ENTITIES);
    for item in items {
        chunk.push(item?);
        if chunk.len() == CHUNK_ENTITIES
            && sender.blocking_send(std::mem::take(&mut chunk)).is_err()
        {
            return Ok(());
        }
    }
    // As above, an error means that the writer has failed.
    let _ = sender.blocking_send(chunk);
    Ok(())
}
