//! Tests that run the example programs as a user does.

mod copy;
mod flights;
mod flights_patterns;
mod short_examples;
mod support;
