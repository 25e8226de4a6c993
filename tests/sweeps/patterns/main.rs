//! The suite of the patterns on this library's server, and in a store behind encryption, which the patterns must not notice.

#[allow(dead_code, reason = "other tests use the other backends")]
#[path = "../../tests/suites/backends.rs"]
mod backends;

use conformance::pattern_tests;

use crate::backends::{Encrypted, Served};

mod served {
    use super::*;

    pattern_tests!(Served);
}

mod encrypted {
    use super::*;

    pattern_tests!(Encrypted);
}
