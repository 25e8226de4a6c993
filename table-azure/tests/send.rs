//! Every public future is `Send`: this file only has to compile, except for the check of the list of names.

#![allow(dead_code, clippy::let_unit_value)]

#[path = "../../tests/support/public_async.rs"]
mod public_async;

use public_async::{any, check_calls, send};
#[cfg(feature = "queue")]
use table_azure::queue::AzureWorkQueue;
use table_azure::service::{ServiceProperties, discover_tenant};
use table_azure::{AzureTableStore, collect_responses};

fn service(store: &AzureTableStore) {
    send(store.stored_policies(any()));
    send(store.set_stored_policies(any(), any()));
    send(store.geo_replication());
    send(store.service_properties());
    send(store.set_service_properties(any::<&ServiceProperties>()));
    send(discover_tenant(any(), any()));
    send(collect_responses(std::future::ready(())));
}

#[cfg(feature = "queue")]
fn queues(queue: &AzureWorkQueue) {
    send(queue.create_if_missing());
    send(queue.delete_queue());
}

#[test]
fn every_public_async_function_is_called_here() {
    check_calls(
        concat!(env!("CARGO_MANIFEST_DIR"), "/src"),
        include_str!("send.rs"),
    );
}
