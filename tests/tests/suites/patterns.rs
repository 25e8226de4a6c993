//! The suite of the patterns in memory, in the embedded store, on Azurite, and on this library's server.

use conformance::pattern_tests;

use crate::backends::{Embedded, Emulated, Memory, Served};

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

mod served {
    use super::*;

    pattern_tests!(Served);
}
