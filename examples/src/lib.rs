//! Runnable examples in `examples/`: the flights flagship, and one program per feature area. `README.md`
//! lists them. This library has their shared parts.

pub mod data;
pub mod row;
pub mod store;

/// The result type of programs. Errors are printed for the user.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The code of the README, which is compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The code of the chapter on types.
#[cfg(doctest)]
#[doc = include_str!("../../docs/types.md")]
struct Types;

/// The code of the chapter on Azure and of the Azure crate's page.
#[cfg(all(doctest, feature = "azure"))]
#[doc = include_str!("../../docs/azure.md")]
#[doc = include_str!("../../table-azure/README.md")]
struct Azure;

/// The programs of the crates' own pages.
#[cfg(doctest)]
#[doc = include_str!("../../table-core/README.md")]
#[doc = include_str!("../../table-embedded/README.md")]
#[doc = include_str!("../../table-patterns/README.md")]
struct CrateReadmes;
