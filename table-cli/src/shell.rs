//! `tables completions` and `tables man`.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Result;
use crate::output::print;

/// The arguments of `tables completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script that completes arguments in a shell.
    pub(crate) fn run(&self, mut program: Command) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "tables", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}

/// Prints the manual: a page for the program, and one for each command.
pub(crate) fn print_manual(program: Command) -> Result<()> {
    let mut pages = Vec::new();
    let mut program = program.disable_help_subcommand(true);
    program.build();
    clap_mangen::Man::new(program.clone()).render(&mut pages)?;
    for command in program.get_subcommands() {
        clap_mangen::Man::new(command.clone()).render(&mut pages)?;
    }
    print(&String::from_utf8_lossy(&pages))
}
