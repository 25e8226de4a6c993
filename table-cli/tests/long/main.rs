//! Long tests of the program `tables`: commands that are killed, and a server under many connections and large bodies.

#[allow(dead_code, reason = "the other tests use it too")]
#[path = "../cli/serving.rs"]
mod serving;
#[allow(dead_code, reason = "the other tests use it too")]
#[path = "../cli/support.rs"]
mod support;

mod kill;
#[cfg(target_os = "linux")]
mod serve_load;
