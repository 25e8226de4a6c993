//! The suite of crashes in memory, in the embedded store, on Azurite, on this library's server, and behind encryption.

use conformance::crash_tests;

use crate::backends::{Embedded, Emulated, Encrypted, Memory, Served};

mod memory {
    use super::*;

    crash_tests!(Memory);
}

mod embedded {
    use super::*;

    crash_tests!(Embedded::new());
}

mod azurite {
    use super::*;

    crash_tests!(Emulated::new(&[]));
}

mod served {
    use super::*;

    crash_tests!(Served);
}

mod encrypted {
    use super::*;

    crash_tests!(Encrypted);
}
