//! What the unit tests of several modules use.

pub(crate) mod faulty_blobs;
