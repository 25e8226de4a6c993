//! Runnable examples in `examples/`: the program `flights`, and one program per feature. `README.md` lists them. This library has their
//! shared parts.

pub mod data;
pub mod progress;
pub mod row;
pub mod store;

use std::process::ExitCode;

/// The result type of programs. Errors are printed for the user.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Runs a program, and prints its error after the program's name.
pub async fn exit_code(program: &str, run: impl Future<Output = Result<()>>) -> ExitCode {
    match run.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles the code blocks of the README as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Compiles the code blocks of the chapter on types.
#[cfg(doctest)]
#[doc = include_str!("../../docs/types.md")]
struct Types;

/// Compiles the code blocks of the chapter on Azure and of the Azure crate's page.
#[cfg(all(doctest, feature = "azure"))]
#[doc = include_str!("../../docs/azure.md")]
#[doc = include_str!("../../table-azure/README.md")]
struct Azure;

/// Compiles the code blocks of the crates' own pages.
#[cfg(doctest)]
#[doc = include_str!("../../table-core/README.md")]
#[doc = include_str!("../../table-embedded/README.md")]
#[doc = include_str!("../../table-patterns/README.md")]
struct CrateReadmes;
