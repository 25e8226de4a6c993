//! What the unit tests of several modules use.

#[allow(dead_code, reason = "other packages use it too")]
#[path = "../../../tests/support/faulty_blobs.rs"]
pub(crate) mod faulty_blobs;
