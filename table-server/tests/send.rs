//! Every public future is `Send`: this file only has to compile, except for the check of the list of names.

#![allow(dead_code, clippy::let_unit_value)]

#[path = "../../tests/support/public_async.rs"]
mod public_async;

use public_async::{any, check_calls, send};
use table_core::memory::MemoryStore;
use table_server::{Server, ServerBuilder, TestServer};

fn servers(builder: ServerBuilder, server: Server) {
    send(builder.start());
    send(server.stop());
    send(TestServer::start());
    send(TestServer::serve(any::<MemoryStore>()));
}

#[test]
fn every_public_async_function_is_called_here() {
    check_calls(
        concat!(env!("CARGO_MANIFEST_DIR"), "/src"),
        include_str!("send.rs"),
    );
}
