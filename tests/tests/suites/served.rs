//! The suite of stores on this library's server, through the Azure store, without deviations.

use conformance::conformance_tests;

use crate::backends::Served;

conformance_tests!(Served);
