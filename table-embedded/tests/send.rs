//! Every public future is `Send`: this compiles, and nothing of it but the list of names is run.

#![allow(dead_code, clippy::let_unit_value)]

#[path = "../../tests/support/public_async.rs"]
mod public_async;

use table_embedded::{EmbeddedBuilder, EmbeddedStore};

fn stores(store: &EmbeddedStore, builder: EmbeddedBuilder) {
    send(EmbeddedStore::open(any::<&str>()));
    send(builder.open());
    send(store.backup(any::<&str>()));
    send(store.compact());
    send(store.verify(1));
    send(store.close());
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
