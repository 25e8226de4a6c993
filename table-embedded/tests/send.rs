//! Every public future is `Send`: this file only has to compile, except for the check of the list of names.

#![allow(dead_code, clippy::let_unit_value)]

#[path = "../../tests/support/public_async.rs"]
mod public_async;

use public_async::{any, check_calls, send};
use table_embedded::{EmbeddedBuilder, EmbeddedStore};

fn stores(store: &EmbeddedStore, builder: EmbeddedBuilder) {
    send(EmbeddedStore::open(any::<&str>()));
    send(builder.open());
    send(store.backup(any::<&str>()));
    send(store.rows());
    send(store.compact());
    send(store.verify(1));
    send(store.close());
}

#[test]
fn every_public_async_function_is_called_here() {
    check_calls(
        concat!(env!("CARGO_MANIFEST_DIR"), "/src"),
        include_str!("send.rs"),
    );
}
