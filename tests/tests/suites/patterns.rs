//! The suite of the patterns: in memory, in the embedded store, and on Azurite.

use conformance::pattern_tests;

use crate::backends::{Embedded, Emulated, Memory};

mod memory {
    use super::*;

    pattern_tests!(Memory);
}

mod embedded {
    use super::*;

    pattern_tests!(Embedded::new());
}

mod azurite {
    use super::*;

    pattern_tests!(Emulated(&[]));
}
