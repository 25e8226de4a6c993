//! Relationships between entities, and joins in the client.
//!
//! # Problem
//! The Table service has no joins and checks no references. Keys express which entities belong together: by a convention,
//! or as a property that stores a key. A program that reads both sides sends at least one request per place.
//!
//! # Choices
//!
//! | relationship | expressed by | type | requests to read both sides |
//! |---|---|---|---|
//! | one-to-many, same partition | keys | [`Compound`](crate::compound::Compound): one range, an enum | 1 per page |
//! | one-to-many, other partition or table | keys | [`Relation::many`] | 1 + 1 per page |
//! | one-to-one, any place | keys, by convention | [`Relation::one`] | 2 |
//! | one-to-one, any place | a stored key | [`Link`] | 2 |
//! | many-to-one, few entities on the other side | the client | [`JoinCache`] | 1 per distinct key, then 0 |
//! | inheritance | a discriminator | an enum with `EntityResolver`, its base `#[entity(flatten)]` | 1 per page |
//!
//! # Guarantees
//! - In one partition, a group transaction ([`Table::group`](crate::Table::group)) writes both sides, and
//!   can keep a count on one side equal to the number of entities on the other.
//! - In different partitions each side is written alone. A link may therefore name an entity that does not exist;
//!   following the link then returns `None`.
//! - [`JoinCache`] sends 1 request for a key, however many callers wait for the key. It never returns a value older than
//!   its time to live. After [`JoinCache::forget`] it returns no value that was read before.
//!
//! # Failure windows
//! Two sides in two places are two writes: a crash between them leaves one side. Insert the side that is referred to
//! first and delete it last, or use eventually consistent transactions. The same holds for moving an entity to another
//! partition.
//!
//! # Inheritance
//! A base struct is flattened into each type, and an enum over the types takes the place of the base class. The example
//! `inheritance` is a whole program.
//!
//! ```
//! use table_core::prelude::*;
//!
//! #[derive(Clone, Debug, PartialEq, PropertyGroup)]
//! struct Person {
//!     name: String,
//! }
//!
//! #[derive(Clone, Debug, PartialEq, TableEntity)]
//! #[entity(type = "Customer", partition_key = "people", row_key = "c_{number:06}")]
//! struct Customer {
//!     number: u32,
//!     #[entity(flatten)]
//!     person: Person,
//!     credit: i64,
//! }
//!
//! #[derive(Clone, Debug, PartialEq, TableEntity)]
//! #[entity(type = "Employee", partition_key = "people", row_key = "e_{number:06}")]
//! struct Employee {
//!     number: u32,
//!     #[entity(flatten)]
//!     person: Person,
//!     salary: i64,
//! }
//!
//! #[derive(Debug, EntityResolver)]
//! enum AnyPerson {
//!     Customer(Customer),
//!     Employee(Employee),
//! }
//!
//! impl AnyPerson {
//!     fn person(&self) -> &Person {
//!         match self {
//!             Self::Customer(customer) => &customer.person,
//!             Self::Employee(employee) => &employee.person,
//!         }
//!     }
//! }
//! ```
//!
//! # When not to use it
//! If most reads need both sides, store them together: in one entity (denormalization) or in one partition.

mod cache;
mod relation;

pub use cache::{JoinCache, JoinOptions};
pub use relation::{Link, Relation};

#[cfg(test)]
mod tests;
