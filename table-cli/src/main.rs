//! The program `tables`.

use std::process::ExitCode;

fn main() -> ExitCode {
    table_cli::main()
}
