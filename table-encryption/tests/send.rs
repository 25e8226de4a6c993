//! Every public future is `Send`: this compiles, and nothing of it but the list of names is run.

#![allow(dead_code, clippy::let_unit_value)]

#[path = "../../tests/support/public_async.rs"]
mod public_async;

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

fn send<F: Future + Send>(_: F) {}

/// A value that is never made.
fn any<T>() -> T {
    std::process::abort()
}

#[test]
fn every_public_async_function_is_called_here() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let missing = public_async::missing(sources, include_str!("send.rs"));
    assert!(missing.is_empty(), "add calls of {missing:?}");
}
