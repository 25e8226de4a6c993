//! The suite on this library's server, through our client: no deviation.

use conformance::conformance_tests;

use crate::backends::Served;

conformance_tests!(Served);
