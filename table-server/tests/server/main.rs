//! Tests of the server over real connections: protocol, authorization, and hostile input.

mod authorization;
mod client;
mod groups;
mod hostile;
mod lifecycle;
mod policies;
mod protocol;
#[cfg(feature = "tls")]
mod tls;
