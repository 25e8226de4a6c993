//! The command line, and the program's `main`.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use futures_util::FutureExt as _;

use crate::backup::{BackupArgs, RestoreArgs};
use crate::copy::CopyArgs;
use crate::delete::DeleteArgs;
use crate::doctor::DoctorArgs;
use crate::export::ExportArgs;
use crate::failure::{Failure, Result};
use crate::faults;
use crate::import::ImportArgs;
use crate::index::IndexArgs;
use crate::keys::KEY_FILE_FORM;
use crate::output::{print_data, remark};
use crate::pace::end_if_stopped;
use crate::plot::PlotArgs;
use crate::read::{CountArgs, GetArgs, ListArgs, QueryArgs};
use crate::sas::SasArgs;
use crate::serve::ServeArgs;
use crate::store::{STORE_FORMS, has_secret, may_be_secret};
use crate::sweep::{MigrateArgs, RotateArgs};
use crate::target_file::create_private_files;
use crate::upkeep::UpkeepArgs;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 the command line is wrong or refused, 3 done except for skipped rows, 4 damage found.";

/// The end of a help page: examples, and the forms of STORE.
fn after_help(examples: &[&str]) -> String {
    format!("Examples:\n  {}\n\n{STORE_FORMS}", examples.join("\n  "))
}

/// Looks into tables, exports, imports, copies, backs up and deletes their entities, in Azure Table Storage, Azure Cosmos DB for Table, the emulator and embedded stores
#[derive(Debug, Parser)]
#[command(name = "tables", version, after_help = format!("{STORE_FORMS}\n\n{EXIT_CODES}"), max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the tables of a store
    #[command(after_help = after_help(&["tables list azure --long"]))]
    List(ListArgs),
    /// Print one entity
    #[command(after_help = after_help(&["tables get azure Employees Sales empid_000223"]))]
    Get(GetArgs),
    /// Print the entities that match, page after page
    #[command(after_help = after_help(&["tables query azure Employees --partition Sales --top 20", "tables query azure Employees --filter \"Age gt 40\" --select Name,Age --format csv > old.csv"]))]
    Query(QueryArgs),
    /// Print the number of entities
    #[command(after_help = after_help(&["tables count azure Employees --partition Sales"]))]
    Count(CountArgs),
    /// Write the entities of tables to files
    #[command(after_help = after_help(&["tables export azure Employees --to employees.csv", "tables export azure Employees Orders --to '{table}.jsonl.zst'"]))]
    Export(ExportArgs),
    /// Write the entities of a file to a table, with their index entries
    #[command(after_help = after_help(&["tables import azure Employees --from employees.csv", "tables import azure Flights --from flights.csv --partition-key '{origin}' --row-key '{carrier}_{flight:u32:04}'"]))]
    Import(ImportArgs),
    /// Copy tables from one store to another, with manifests and index entries, and compare them
    #[command(after_help = after_help(&["tables copy azure embedded:company", "tables copy env:OLD env:NEW --table Orders --rename Orders=Orders2"]))]
    Copy(CopyArgs),
    /// Write all rows of tables to a directory or a container, with checksums
    #[command(after_help = after_help(&["tables backup azure monday", "tables backup azure azure:backups/monday"]))]
    Backup(BackupArgs),
    /// Write the tables of a backup into a store
    #[command(after_help = after_help(&["tables restore monday azure --check", "tables restore monday embedded:company --table Employees"]))]
    Restore(RestoreArgs),
    /// Delete entities of a table, with their index entries
    #[command(after_help = after_help(&["tables delete azure Employees --partition Sales --dry-run"]))]
    Delete(DeleteArgs),
    /// List, add, build, compare, repair and remove the indexes of a table, from its manifest
    #[command(after_help = after_help(&["tables index azure Employees list", "tables index azure Employees add age --partition-key 'age_{Age:u32:03}' --row-key '{PartitionKey}_{RowKey}'"]))]
    Index(IndexArgs),
    /// Finish interrupted writes and builds, and repair index entries, once or all the time
    #[command(after_help = after_help(&["tables upkeep azure --once"]))]
    Upkeep(UpkeepArgs),
    /// Find damage and coming problems of tables: hot partitions, unfinished writes, plaintext, values near limits
    #[command(after_help = after_help(&["tables doctor azure Orders"]))]
    Doctor(DoctorArgs),
    /// Draw the sizes of partitions and rows, and the writes over time
    #[command(after_help = after_help(&["tables plot azure Orders --to orders.svg"]))]
    Plot(PlotArgs),
    /// Wrap the data keys of encrypted rows by a new key
    #[command(after_help = format!("{KEY_FILE_FORM}\n\n{}", after_help(&["tables rotate azure --count --keys keys.json"])))]
    Rotate(RotateArgs),
    /// Encrypt properties of a table that has them in plaintext
    #[command(after_help = format!("{KEY_FILE_FORM}\n\n{}", after_help(&["tables migrate azure People --encrypt NationalId --keys keys.json"])))]
    Migrate(MigrateArgs),
    /// Sign a URL that gives others a part of an account for some time
    #[command(after_help = after_help(&["tables sas table azure Orders --permissions r --expires 8h --partition contoso"]))]
    Sas(SasArgs),
    /// Serve a store to clients of every language, as Azure Table Storage
    #[command(after_help = format!("{}\n\n{}", faults::FAULT_NAMES, after_help(&["tables serve embedded:company"])))]
    Serve(ServeArgs),
    /// Print the script that completes arguments in a shell
    Completions(CompletionsArgs),
    /// Print the manual, for `man -l -`
    Man,
}

impl Command {
    async fn run(self) -> Result<()> {
        match self {
            Self::List(list) => list.run().await,
            Self::Get(get) => get.run().await,
            Self::Query(query) => query.run().await,
            Self::Count(count) => count.run().await,
            Self::Export(export) => export.run().await,
            Self::Import(import) => import.run().await,
            Self::Copy(copy) => copy.run().await,
            Self::Backup(backup) => backup.run().await,
            Self::Restore(restore) => restore.run().await,
            Self::Delete(delete) => delete.run().await,
            Self::Index(index) => index.run().await,
            Self::Upkeep(upkeep) => upkeep.run().await,
            Self::Doctor(doctor) => doctor.run().await,
            Self::Plot(plot) => plot.run().await,
            Self::Rotate(rotate) => rotate.run().await,
            Self::Migrate(migrate) => migrate.run().await,
            Self::Sas(sas) => sas.run(),
            Self::Serve(serve) => serve.run().await,
            Self::Completions(completions) => completions.run(Arguments::command()),
            Self::Man => print_manual(Arguments::command()),
        }
    }
}

/// The arguments of `tables completions`.
#[derive(Debug, Args)]
struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script that completes arguments in a shell.
    fn run(&self, mut program: clap::Command) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "tables", &mut script);
        print_data(&script)
    }
}

/// Prints the manual: a page for the program, and one for each command.
fn print_manual(program: clap::Command) -> Result<()> {
    let mut pages = Vec::new();
    let mut program = program.disable_help_subcommand(true);
    // This gives the subcommands their full names, and the options of the program.
    program.build();
    add_pages(&program, &mut pages)?;
    print_data(&pages)
}

fn add_pages(command: &clap::Command, pages: &mut Vec<u8>) -> Result<()> {
    clap_mangen::Man::new(command.clone()).render(pages)?;
    command
        .get_subcommands()
        .try_for_each(|command| add_pages(command, pages))
}

/// A text without the arguments that may be keys or signatures in the wrong place.
fn without_secrets(text: &str) -> String {
    let arguments: Vec<_> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    // The value of an option may be a part of its argument.
    let values = arguments
        .iter()
        .flat_map(|argument| {
            [
                Some(&**argument),
                argument.split_once('=').map(|(_, value)| value),
            ]
        })
        .flatten()
        .filter(|value| !value.starts_with("--") && may_be_secret(value));
    values.fold(text.to_owned(), |text, value| text.replace(value, "…"))
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    create_private_files();
    // Before the arguments are parsed: the parser's errors repeat arguments, and logs keep errors.
    if std::env::args_os()
        .skip(1)
        .any(|argument| has_secret(&argument.to_string_lossy()))
    {
        remark(
            "error: an argument has a key or a signature, which other users of the machine can read in the command line: put it into an \
             environment variable or a file, and give env:NAME or file:PATH as the STORE",
        );
        return ExitCode::from(2);
    }
    // `parse` would end the process by itself. Here the exit code stays in the hands of this function, and
    // help for a pipe that was closed is no error.
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(help_or_error) => {
            match help_or_error.use_stderr() {
                // An error repeats arguments, which a script may have from others.
                true => remark(&without_secrets(&help_or_error.render().to_string())),
                false => _ = help_or_error.print(),
            }
            return ExitCode::from(u8::try_from(help_or_error.exit_code()).unwrap_or(2));
        }
    };
    // After the arguments: help and mistakes start no threads.
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::failed);
    let done = runtime.and_then(|runtime| {
        let mut ending = Box::pin(end_if_stopped());
        {
            let _context = runtime.enter();
            // Before the command begins: until this call, a signal would end the process without a word.
            let _not_yet = ending.as_mut().now_or_never();
        }
        runtime.spawn(ending);
        let done = runtime.block_on(arguments.command.run());
        // A thread may still wait for standard input.
        runtime.shutdown_background();
        done
    });
    match done {
        // In `tables query … | head` the reader has its lines.
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(failure) => {
            remark(&format!("error: {failure}"));
            failure.exit_code()
        }
    }
}
