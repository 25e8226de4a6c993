//! The error messages of the macros, by category. Each file has several errors, which are reported together.
//!
//! After an intended change of the messages: `TRYBUILD=overwrite cargo test -p derive-tests --test long`.

#[test]
fn errors_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*/*.rs");
}
