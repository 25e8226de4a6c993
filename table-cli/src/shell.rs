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
    // This gives the subcommands their full names, and the options of the program.
    program.build();
    add_pages(&program, &mut pages)?;
    print(&String::from_utf8_lossy(&pages))
}

fn add_pages(command: &Command, pages: &mut Vec<u8>) -> Result<()> {
    clap_mangen::Man::new(command.clone()).render(pages)?;
    command.get_subcommands().try_for_each(|command| add_pages(command, pages))
}
