//! Every public future is `Send`: this file only has to compile, except for the check of the list of names.

#![allow(dead_code, clippy::let_unit_value)]

#[path = "../../tests/support/public_async.rs"]
mod public_async;

use public_async::{any, check_calls, send};
use table_core::memory::MemoryStore;
use table_encryption::{BlobCipher, BlobOpener, EncryptedStore, Migration, Rotation, Sweep};

fn stores(store: &EncryptedStore<MemoryStore>) {
    send(store.describe(any(), any()));
}

fn sweeps(
    rotation: &mut Sweep<'_, MemoryStore, Rotation<'_, MemoryStore>>,
    migration: &mut Sweep<'_, MemoryStore, Migration<'_, MemoryStore>>,
) {
    send(rotation.step());
    send(rotation.run());
    send(migration.step());
    send(migration.run());
}

fn blobs(cipher: &BlobCipher, opener: &mut BlobOpener, last: BlobOpener) {
    send(cipher.sealer(any()));
    send(opener.push(any()));
    send(last.finish());
}

#[test]
fn every_public_async_function_is_called_here() {
    check_calls(
        concat!(env!("CARGO_MANIFEST_DIR"), "/src"),
        include_str!("send.rs"),
    );
}
