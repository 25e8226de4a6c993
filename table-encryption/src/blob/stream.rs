use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt as _, stream};
use table_core::Result;

use super::{BlobCipher, BlobOpener, BlobPlace, BlobSealer};

impl BlobCipher {
    /// Encrypts a stream into a blob while it is polled. An error of the input stream ends the output.
    pub fn seal_stream<P>(
        &self,
        place: BlobPlace,
        plaintext: P,
    ) -> impl Stream<Item = Result<Bytes>> + Send + use<P>
    where
        P: Stream<Item = Result<Bytes>> + Send + Unpin,
    {
        // The sealer is made by the first poll, because it may ask the key service: a stream without a reader sends no request.
        let start = Sealing { plaintext, cipher: self.clone(), place, sealer: None };
        without_empty(stream::try_unfold(Some(start), async |state| match state {
            None => Ok(None),
            Some(state) => state.step().await.map(Some),
        }))
    }

    /// Decrypts a blob while it is polled. **The plaintext is complete only if the stream ends without an
    /// error.**
    pub fn open_stream<P>(
        &self,
        place: &BlobPlace,
        sealed: P,
    ) -> impl Stream<Item = Result<Bytes>> + Send + use<P>
    where
        P: Stream<Item = Result<Bytes>> + Send + Unpin,
    {
        let start = Opening { sealed, opener: self.opener(place) };
        without_empty(stream::try_unfold(Some(start), async |state| match state {
            None => Ok(None),
            Some(state) => state.step().await.map(Some),
        }))
    }
}

struct Sealing<P> {
    plaintext: P,
    cipher: BlobCipher,
    place: BlobPlace,
    sealer: Option<BlobSealer>,
}

impl<P: Stream<Item = Result<Bytes>> + Unpin> Sealing<P> {
    async fn step(mut self) -> Result<(Vec<u8>, Option<Self>)> {
        let mut sealer = match self.sealer.take() {
            Some(sealer) => sealer,
            None => self.cipher.sealer(&self.place).await?,
        };
        let Some(piece) = self.plaintext.next().await.transpose()? else {
            return Ok((sealer.finish()?, None));
        };
        let sealed = sealer.push(&piece)?;
        self.sealer = Some(sealer);
        Ok((sealed, Some(self)))
    }
}

struct Opening<P> {
    sealed: P,
    opener: BlobOpener,
}

impl<P: Stream<Item = Result<Bytes>> + Unpin> Opening<P> {
    async fn step(mut self) -> Result<(Vec<u8>, Option<Self>)> {
        match self.sealed.next().await.transpose()? {
            None => Ok((self.opener.finish().await?, None)),
            Some(piece) => Ok((self.opener.push(&piece).await?, Some(self))),
        }
    }
}

fn without_empty(
    pieces: impl Stream<Item = Result<Vec<u8>>> + Send,
) -> impl Stream<Item = Result<Bytes>> + Send {
    pieces.filter_map(async |piece| match piece {
        Ok(bytes) if bytes.is_empty() => None,
        other => Some(other.map(Bytes::from)),
    })
}
