//! The suite of encrypted properties in memory, in the embedded store and on Azurite. The suites of stores and
//! of patterns also run behind encryption, and must not notice it.

use conformance::{conformance_tests, encryption_tests, pattern_tests};

use crate::backends::{Embedded, Emulated, Encrypted, Memory};

mod memory {
    use super::*;

    encryption_tests!(Memory);
}

mod stores {
    use super::*;

    conformance_tests!(Encrypted);
}

mod patterns {
    use super::*;

    pattern_tests!(Encrypted);
}

mod embedded {
    use super::*;

    encryption_tests!(Embedded::new());
}

mod azurite {
    use super::*;

    encryption_tests!(Emulated(&[]));
}
