//! What the macros say of mistakes, by category; each file has several, reported in one pass.
//!
//! After an intended change of the messages: `TRYBUILD=overwrite cargo test -p table-derive`.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*/*.rs");
}
