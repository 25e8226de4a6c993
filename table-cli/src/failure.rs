//! Failures of commands, the exit codes of the program, and the outcomes of the rows of a long command.

use std::error::Error as _;
use std::io;
use std::process::ExitCode;

use table_core::Error;
use table_core::store::{ErrorKind, Outcome};

/// The result of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command ended early. Each kind has an exit code; 0 is success.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command could not be done: 1.
    #[error("{0}")]
    Failed(String),
    /// The command was written wrongly, or is refused as it is written: 2. Nothing was changed.
    #[error("{0}")]
    Misuse(String),
    /// The command was done, except for some rows: 3.
    #[error("{0}")]
    Skipped(String),
    /// The command was done, and found damage: 4.
    #[error("{0}")]
    Damaged(String),
    /// The reader of standard output ended, for example `head`. Nothing is missing: 0.
    #[error("standard output was closed")]
    OutputClosed,
}

impl Failure {
    /// A failure of the command line, with the reason.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub(crate) fn misuse(reason: impl ToString) -> Self {
        Self::Misuse(reason.to_string())
    }

    /// A failure of the command, with the reason.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub(crate) fn failed(reason: impl ToString) -> Self {
        Self::Failed(reason.to_string())
    }

    /// The failure of a job that has written nothing yet: a call that the library refuses as it is made is a misuse of the command.
    pub(crate) fn refused(error: Error) -> Self {
        let is_misuse = is_refused_call(error.kind());
        match Self::from(error) {
            Self::Failed(text) if is_misuse => Self::Misuse(text),
            failure => failure,
        }
    }

    /// A failure to read a file with entities. An error of the operating system says nothing of the content; every other error of the
    /// reader is damage.
    pub(crate) fn of_input(reason: String, error: &io::Error) -> Self {
        match error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Unsupported {
            true => Self::Failed(reason),
            false => Self::Damaged(reason),
        }
    }

    /// Says how to go on after a failure in the middle of the work.
    pub(crate) fn with_resume(self, resume: &str) -> Self {
        let with = |text: String| format!("{text}: when this is mended, {resume}");
        match self {
            Self::Failed(text) if !text.contains(resume) => Self::Failed(with(text)),
            Self::Damaged(text) if !text.contains(resume) => Self::Damaged(with(text)),
            failure => failure,
        }
    }

    /// Returns the exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::OutputClosed => 0,
            Self::Failed(_) => 1,
            Self::Misuse(_) => 2,
            Self::Skipped(_) => 3,
            Self::Damaged(_) => 4,
        })
    }
}

/// Pairs: what a text of the library advises, and the words of the command line for the same.
const OPTIONS_OF_METHODS: [(&str, &str); 13] = [
    (
        "`build` it first, or `drop_index` it if its build finds duplicates",
        "build it by `tables index STORE TABLE build INDEX`, or remove it by `tables index STORE TABLE drop INDEX` if its build finds duplicates",
    ),
    (
        "build again, or drop the index",
        "build again by `tables index STORE TABLE build INDEX`, or remove the index by `tables index STORE TABLE drop INDEX`",
    ),
    ("`overwrite`", "--force"),
    ("`into_existing`", "--force"),
    ("Set `trust_definitions`", "Give --trust-definitions"),
    ("`with_blobs`", "--blobs"),
    ("set `rows_only`", "give --rows-only"),
    ("`rows_only`", "--rows-only"),
    ("copy `without_index_blobs`", "give --rows-only"),
    ("`renamed`", "--rename"),
    (
        "call `flush` if this program has written it; otherwise run `Upkeep` once (or a sweep of the journal)",
        "run `tables upkeep STORE --once`",
    ),
    // No command creates a table by itself: most of them read a table, whose name is then mistyped.
    (
        "; create it first",
        ": `tables list STORE` prints the tables of the store",
    ),
    (
        "Copy between stores that have the keys",
        "Give --keys FILE: the copy is then encrypted again",
    ),
];

/// Names options of the command line instead of methods of the library.
pub(crate) fn with_options(text: &str) -> String {
    OPTIONS_OF_METHODS
        .iter()
        .fold(text.to_owned(), |text, (method, option)| {
            text.replace(method, option)
        })
}

/// Whether an error is about one row, so that the next row may succeed. Any other error, such as a full disk, a refused credential or a broken
/// connection, would meet the next rows too.
pub(crate) fn is_of_row(error: &Error) -> bool {
    error.is_of_one_entity()
        || matches!(
            error.root().kind(),
            ErrorKind::EntityAlreadyExists { .. }
                | ErrorKind::EntityNotFound { .. }
                | ErrorKind::PreconditionFailed { .. }
                | ErrorKind::InvalidName { .. }
                | ErrorKind::Rejected(_)
        )
        || is_refused_call(error.root().kind())
}

/// Whether the library refuses a call for what it asks, or for what is stored: nothing was written, and a repetition is refused too.
const fn is_refused_call(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidArgument(_)
            | ErrorKind::Misuse(_)
            | ErrorKind::InvalidDeclaration(_)
            | ErrorKind::ManifestMismatch(_)
            | ErrorKind::IndexNotReady(_)
            | ErrorKind::WrongState(_)
    )
}

/// The text of an error, with the entity that has a value of an index: the operator reads the whole table.
fn described(error: &Error) -> String {
    match error.owner() {
        Some(owner) => format!("{error}; the other entity is {owner}"),
        None => error.to_string(),
    }
}

/// Keeps the causes: each follows its effect after a colon, unless the text has it already.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut text = described(&error);
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self::Failed(with_options(&text))
    }
}

/// An error of standard output, or of a file that is being written.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Standard output, or the pipe that the command writes through.
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("the output cannot be written: {error}")),
        }
    }
}

/// The most rows that a report names with their reasons.
pub(crate) const MAX_NAMED: usize = 10;

/// The rows of a command by outcome.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Rows for which the command did its work.
    pub(crate) done: u64,
    /// Rows that certainly stayed as they were.
    pub(crate) skipped: u64,
    /// Rows whose answer was lost: the work was perhaps done.
    pub(crate) ambiguous: u64,
    /// The first skipped and ambiguous rows, with the reasons.
    pub(crate) named: Vec<String>,
}

impl Outcomes {
    /// Counts a row that stayed as it was.
    pub(crate) fn skip(&mut self, row: String) {
        self.skipped += 1;
        self.name(row);
    }

    /// Counts the outcome of an entity.
    ///
    /// # Errors
    /// The error is not about the entity: the work must end, because it would meet the next entities too.
    pub(crate) fn add(&mut self, key: &str, error: Option<&Error>) -> Result<()> {
        match error.map(|error| (error, error.outcome())) {
            // The row is written. A later step has failed, which upkeep repeats.
            None | Some((_, Outcome::Applied)) => self.done += 1,
            Some((error, Outcome::NotApplied)) if is_of_row(error) => {
                self.skip(format!("{key}: {}", with_options(&described(error))));
            }
            // The failure of the command says the error.
            Some((_, Outcome::NotApplied)) => {}
            Some((error, Outcome::Ambiguous)) => {
                self.ambiguous += 1;
                self.name(format!("{key}: perhaps done: {error}"));
            }
        }
        match error.filter(|error| error.outcome() != Outcome::Applied && !is_of_row(error)) {
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    /// Lists a row with its reason, if it is among the first.
    fn name(&mut self, row: String) {
        if self.named.len() < MAX_NAMED {
            self.named.push(row);
        }
    }
}
