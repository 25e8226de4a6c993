//! Shared access signatures: permissions on tables that are limited in scope and time and can be given to
//! others.

mod account;
mod common;
mod permissions;
mod range;
mod table;
mod token;

pub use account::AccountSas;
pub use common::{IpRange, SasProtocol};
pub use permissions::{AccountPermissions, AccountResources, AccountServices, TablePermissions};
pub use range::SasRange;
pub use table::TableSas;
pub use token::SasToken;

#[cfg(test)]
mod tests;
