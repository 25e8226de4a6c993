//! Relationships between entities, and joins in the client.
//!
//! # Problem
//! A table service joins nothing and checks no reference. Which entities belong together is said by their keys, or by a
//! key that one of them stores; reading both takes as many requests as there are places.
//!
//! # Choices
//!
//! | relationship | kept by | here | requests to read both |
//! |---|---|---|---|
//! | one-to-many, same partition | keys | [`Compound`](crate::compound::Compound): one range, an enum | 1 per page |
//! | one-to-many, other partition or table | keys | [`Relation::many`] | 1 + 1 per page |
//! | one-to-one, any place | keys, by convention | [`Relation::one`] | 2 |
//! | one-to-one, any place | a stored key | [`Link`] | 2 |
//! | many-to-one, a small other side | the client | [`JoinCache`] | 1 per distinct key, then none |
//! | inheritance | a discriminator | an enum with `EntityResolver`, its base `#[entity(flatten)]` | 1 per page |
//!
//! # Guarantees
//! In one partition, both sides are written in a group transaction ([`Table::group`](table_core::typed::Table::group)),
//! and counts on one side can be kept in step with the other. Elsewhere each side is written alone: a link may name what
//! is not there (any more), and following it answers `None`. [`JoinCache`] asks once for a key however many wait for it,
//! never gives a value older than its time to live, and after [`JoinCache::forget`] none that was read before.
//!
//! # Failure windows
//! Two sides in two places are two writes: a crash between them leaves one. Write the side that is pointed at first,
//! delete it last, or use eventually consistent transactions. Moving an entity to another partition is such a pair.
//!
//! # Inheritance
//! A base struct is flattened into each type; the enum over the types is the base class. The example `inheritance` runs it.
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
//! Where most reads need both sides, keep them together: in one entity (denormalization), or in one partition.

mod cache;
mod kept;
mod link;
mod relation;

pub use cache::{JoinCache, JoinOptions};
pub use link::Link;
pub use relation::Relation;

#[cfg(test)]
mod tests;
