//! Runs the examples like a user would.

mod copy;
mod flights;
mod flights_patterns;
mod short_examples;
mod support;
