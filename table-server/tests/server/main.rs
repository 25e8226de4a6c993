//! Tests of the server over real connections: protocol, authorization, and hostile input.

mod answers;
mod authorization;
mod client;
mod closing;
mod explorer;
mod groups;
mod hostile;
#[cfg(feature = "indexes")]
mod indexes;
mod lifecycle;
mod policies;
mod protocol;
mod sites;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "indexes"))]
mod unmaintained;
