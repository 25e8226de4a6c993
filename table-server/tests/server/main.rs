//! Tests of the server over real connections: protocol, authorization, and hostile input.

mod answers;
mod authorization;
mod client;
mod closing;
mod explorer;
mod groups;
#[cfg(feature = "indexes")]
mod guests;
mod hostile;
#[cfg(feature = "indexes")]
mod indexes;
mod lifecycle;
mod policies;
mod protocol;
mod rights;
mod sites;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "indexes"))]
mod unmaintained;
