//! The suite of encrypted properties in memory, in the embedded store and on Azurite. The suite of stores also
//! runs behind encryption, and must not notice it; `tests/sweeps/patterns` has the suite of the patterns.

use conformance::{conformance_tests, encryption_tests};

use crate::backends::{Embedded, Emulated, Encrypted, Memory};

mod memory {
    use super::*;

    encryption_tests!(Memory);
}

mod stores {
    use super::*;

    conformance_tests!(Encrypted);
}

mod embedded {
    use super::*;

    encryption_tests!(Embedded::new());
}

mod azurite {
    use super::*;

    encryption_tests!(Emulated::new(&[]));
}
