//! Tests of the server over real connections: protocol, authorization, and hostile input.

mod authorization;
mod client;
mod explorer;
mod groups;
mod hostile;
#[cfg(feature = "indexes")]
mod indexes;
mod lifecycle;
mod policies;
mod protocol;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "indexes"))]
mod unmaintained;
