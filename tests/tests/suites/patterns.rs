//! The suite of the patterns in memory, in the embedded store and on Azurite. `tests/sweeps/patterns` has it on this library's server and behind
//! encryption.

use conformance::pattern_tests;
use conformance::patterns::documented_verbs;

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

    pattern_tests!(Emulated::new(&[]));
}

#[test]
fn the_documented_table_of_verbs_is_the_one_that_is_run() {
    let (page, run) = (include_str!("../../../docs/verbs.md"), documented_verbs());
    assert!(page.contains(&run), "docs/verbs.md must have:\n{run}");
}
