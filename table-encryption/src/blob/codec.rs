use table_patterns::large::{BlobCodec, BlobContext, BlobKey, ByteStream};

use super::{BlobCipher, BlobPlace, Preamble};

/// Encrypts large fields of entities in their blobs. Each blob is bound to its entity, its property and the
/// write that created it.
impl BlobCodec for BlobCipher {
    fn name(&self) -> &'static str {
        "tenc2"
    }

    fn encrypts(&self) -> bool {
        true
    }

    fn encode(&self, context: &BlobContext, content: ByteStream) -> ByteStream {
        Box::pin(self.seal_stream(place(context), content))
    }

    fn decode(&self, context: &BlobContext, stored: ByteStream) -> ByteStream {
        Box::pin(self.open_stream(&place(context), stored))
    }

    fn active_key(&self) -> Option<String> {
        Some(self.keys.keys().active().key_id().to_owned())
    }

    fn key_of(&self, start: &[u8]) -> Option<BlobKey> {
        let (wrapping, active) = (
            Preamble::parse(start)?.0.wrapping,
            self.keys.keys().active(),
        );
        let is_active =
            *wrapping.key_id == *active.key_id() && *wrapping.algorithm == *active.algorithm();
        Some(BlobKey {
            id: wrapping.key_id.into(),
            active: is_active,
        })
    }
}

fn place(context: &BlobContext) -> BlobPlace {
    let name = format!("{}/{}", context.property, context.id.simple());
    BlobPlace {
        table: context.table.clone(),
        key: context.key.clone(),
        name,
    }
}
