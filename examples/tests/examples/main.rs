//! The examples, run as a person would run them.

mod copy;
mod flights;
mod flights_patterns;
mod short_examples;
mod support;
