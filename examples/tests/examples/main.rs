//! The examples, run as a person would run them.

mod copy;
mod flights;
mod short_examples;
mod support;
