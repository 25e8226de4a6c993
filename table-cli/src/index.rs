//! `tables index`.

use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use table_core::manifest::{IndexState, Manifest, StoredIndex};
use table_core::model::TableName;
use table_core::store::{Error, ErrorKind};
use table_patterns::index::{
    IndexOptions, IndexedEntities, ScrubCursor, ScrubMode, ScrubReport, Waiting,
};

use crate::failure::{Failure, Result};
use crate::index_add::{AddArgs, TEMPLATE_FORM, build_progress};
use crate::keys::KeyArgs;
use crate::output::{OutputArgs, ask, one_line, print, print_json, remark};
use crate::pace::{InFlight, Pace, until_stopped};
use crate::progress::Progress;
use crate::store::{Access, OpenStore, StoreName, manifest};

/// The arguments of `tables index`.
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// The store
    store: StoreName,
    /// The table
    table: TableName,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    in_flight: InFlight,
    #[command(flatten)]
    pace: Pace,
    #[command(subcommand)]
    command: IndexCommand,
}

#[derive(Debug, Subcommand)]
enum IndexCommand {
    /// Print the indexes: name, id, state, and what else the manifest says
    List {
        /// Print a line of JSON for each index
        #[arg(long)]
        json: bool,
    },
    /// Add an index to the table, and build it
    #[command(after_help = TEMPLATE_FORM)]
    Add(Box<AddArgs>),
    /// Continue a build that was interrupted
    Build {
        /// The name or the id of the index
        index: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Compare the entries of indexes with the entities
    Scrub {
        /// The name or the id of the index; every index if it is left out
        index: Option<String>,
        /// Remove dangling entries and add missing entries
        #[arg(long)]
        repair: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Let an index that the manifest defines write its entries into another table: give that table's consent. Then build it
    Trust {
        /// The name or the id of the index
        index: String,
        /// Print a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove an index with its entries, or a row of the manifest that `tables doctor` names
    Drop {
        /// The name or the id of the index; the RowKey of a damaged row
        index: String,
        /// Remove without a question
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl IndexArgs {
    /// Lists or maintains indexes by the manifest. 1 request for the manifest; to maintain, 2 requests to open and the requests of the
    /// library's call.
    pub(crate) async fn run(&self) -> Result<()> {
        let access = match self.command {
            IndexCommand::List { .. } => Access::Read,
            _ => Access::WriteExisting,
        };
        let work = async |open: &mut OpenStore| {
            self.keys
                .apply(open, std::slice::from_ref(&self.table))
                .await?;
            let manifest = manifest(&*open.store, &self.table).await?;
            // The question comes first: nothing handles Ctrl-C while a person thinks, so that it ends the process.
            self.confirm(&manifest)?;
            let resume = "run the same command again; `tables index STORE TABLE build INDEX` continues a build";
            until_stopped(self.run_command(open, &manifest), resume).await
        };
        self.store.with_open(access, self.pace, work).await
    }

    fn options(&self) -> IndexOptions {
        let mut options = IndexOptions::default();
        options.concurrency = self.in_flight.concurrency;
        options
    }

    /// Asks before a removal.
    fn confirm(&self, manifest: &Manifest) -> Result<()> {
        let IndexCommand::Drop {
            index, yes: false, ..
        } = &self.command
        else {
            return Ok(());
        };
        let (table, store) = (&self.table, &self.store);
        let id = find_or_row(manifest, table, index)?;
        match ask(&format!(
            "Remove the index {id} of {table} in {store}, with its entries?"
        )) {
            true => Ok(()),
            false => Err(Failure::misuse(
                "the index was not removed: answer y, or give --yes",
            )),
        }
    }

    async fn run_command(&self, open: &OpenStore, manifest: &Manifest) -> Result<()> {
        let (table, declared) = (&self.table, &manifest.indexes[..]);
        match &self.command {
            IndexCommand::Add(index) => index.run(open, table, self.options()).await,
            IndexCommand::List { json } => {
                let print_index = |index: &StoredIndex, is_in_force: bool| match json {
                    true => print_json(&index_json(index, is_in_force)),
                    false => print(&index_line(index, is_in_force)),
                };
                declared
                    .iter()
                    .try_for_each(|index| print_index(index, true))?;
                manifest
                    .not_in_force
                    .iter()
                    .try_for_each(|index| print_index(index, false))
            }
            IndexCommand::Build { index, output } => {
                let index = find(manifest, table, index)?;
                let is_in_force = !manifest.not_in_force.contains(index);
                build(open, table, self.options(), index, is_in_force, *output).await
            }
            IndexCommand::Scrub {
                index,
                repair,
                output,
            } => {
                let chosen = match index {
                    Some(index) => vec![find(manifest, table, index)?],
                    None => declared.iter().collect(),
                };
                if chosen.is_empty() {
                    return Ok(());
                }
                let progress = Progress::new("compared", open.meter.clone(), output.quiet);
                let indexed = open_for_upkeep(open, table, self.options()).await?;
                scrub(indexed, &chosen, *repair, output.json, progress).await
            }
            IndexCommand::Trust { index, json } => {
                let id = find(manifest, table, index)?.id();
                open_for_upkeep(open, table, self.options())
                    .await?
                    .trust_index(&id)
                    .await?;
                if *json {
                    return print_json(&json!({"index": id, "trusted": true}));
                }
                print(&format!(
                    "{id} is in force: build it by `tables index STORE {table} build {index}`\n"
                ))
            }
            IndexCommand::Drop { index, output, .. } => {
                let id = find_or_row(manifest, table, index)?;
                drop_index(
                    &open_for_upkeep(open, table, self.options()).await?,
                    &id,
                    *output,
                )
                .await
            }
        }
    }
}

/// Finds what a drop removes: an index by its name or its id, or a row of the manifest that says nothing by its RowKey.
fn find_or_row(manifest: &Manifest, table: &TableName, index: &str) -> Result<String> {
    let refused = manifest.refused.iter().find(|row| row.key.row() == index);
    refused.map_or_else(
        || find(manifest, table, index).map(StoredIndex::id),
        |row| Ok(row.key.row().to_owned()),
    )
}

/// Finds an index by its name or its id.
fn find<'a>(manifest: &'a Manifest, table: &TableName, index: &str) -> Result<&'a StoredIndex> {
    let declared: Vec<_> = manifest.all_definitions().collect();
    let mut found = declared
        .iter()
        .copied()
        .filter(|stored| stored.name == index || stored.id() == index);
    let ids = || {
        declared
            .iter()
            .map(|stored| stored.id())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (found.next(), found.next()) {
        (Some(stored), None) => Ok(stored),
        (Some(_), Some(_)) => Err(Failure::misuse(format!(
            "the table '{table}' has several indexes with the name '{index}': give an id, one of {}",
            ids()
        ))),
        (None, _) if declared.is_empty() => Err(Failure::misuse(format!(
            "the manifest of the table '{table}' has no index"
        ))),
        (None, _) => Err(Failure::misuse(format!(
            "the manifest of the table '{table}' has no index '{index}': it has {}",
            ids()
        ))),
    }
}

/// The name of the type of an index.
fn entity_name(index: &StoredIndex) -> Option<&str> {
    index
        .entity
        .as_ref()
        .map(|entity| &*entity.name)
        .filter(|name| !name.is_empty())
}

/// Keys that Rust code makes, and definitions of a later format: this program can compute neither.
fn needs_program(index: &StoredIndex) -> bool {
    index
        .definition
        .as_ref()
        .is_none_or(|definition| definition.is_opaque())
}

/// An index of the list, as JSON.
fn index_json(index: &StoredIndex, is_in_force: bool) -> serde_json::Value {
    let other_table = index.table.as_ref().map(TableName::as_str);
    json!({
        "name": index.name, "id": index.id(), "state": index.state.to_string(), "type": entity_name(index), "table": other_table,
        "dropping": index.is_dropping(), "needs_program": needs_program(index), "in_force": is_in_force,
    })
}

/// A line of the list.
fn index_line(index: &StoredIndex, is_in_force: bool) -> String {
    let mut line = format!(
        "{}\t{}\t{}",
        one_line(&index.name),
        one_line(&index.id()),
        index.state
    );
    if index.is_dropping() {
        line.push_str("\tis being removed");
    }
    if let Some(entity) = entity_name(index) {
        line.push_str(&format!("\tof {}", one_line(entity)));
    }
    if let Some(other) = &index.table {
        line.push_str(&format!("\tentries in {other}"));
    }
    if !is_in_force {
        line.push_str("\tnot in force: the other table has no consent to it");
    }
    if needs_program(index) {
        line.push_str("\tonly a program that declares it can maintain it");
    }
    line.push('\n');
    line
}

async fn open_for_upkeep(
    open: &OpenStore,
    table: &TableName,
    options: IndexOptions,
) -> Result<IndexedEntities> {
    let store = Arc::clone(&open.store);
    Ok(IndexedEntities::open_for_upkeep(store, table.clone(), options).await?)
}

async fn build(
    open: &OpenStore,
    table: &TableName,
    options: IndexOptions,
    index: &StoredIndex,
    is_in_force: bool,
    output: OutputArgs,
) -> Result<()> {
    let id = index.id();
    if index.is_dropping() {
        return Err(Failure::failed(format!(
            "the index {id} is being removed: `tables upkeep STORE --once` or `tables index STORE TABLE drop` ends that"
        )));
    }
    // The state of a definition that is not in force says nothing: the library refuses it by name.
    if index.state == IndexState::Readable && is_in_force {
        return match output.json {
            true => {
                print_json(&json!({"index": id, "state": "readable", "entities": 0, "entries": 0}))
            }
            false => print(&format!("{} is readable already\n", one_line(&id))),
        };
    }
    let indexed = open_for_upkeep(open, table, options).await?;
    let build = indexed
        .build(&id)?
        .on_progress(build_progress(open, output.quiet));
    let built = build.run().await?;
    if output.json {
        let (state, entities, entries) = (built.state.to_string(), built.entities, built.entries);
        let report = json!({"index": id, "state": state, "entities": entities, "entries": entries});
        return print_json(&report);
    }
    print(&format!(
        "{} is {}: {} entities, {} entries written\n",
        one_line(&id),
        built.state,
        built.entities,
        built.entries
    ))
}

async fn drop_index(indexed: &IndexedEntities, id: &str, output: OutputArgs) -> Result<()> {
    let tell = |waiting: Waiting| {
        if !output.quiet {
            remark(&waiting.to_string());
        }
    };
    indexed.drop_index_with(id, tell).await?;
    match output.json {
        true => print_json(&json!({"index": id, "removed": true})),
        false => print(&format!("{} is removed\n", one_line(id))),
    }
}

/// Scrubs indexes one after another. An index that cannot be scrubbed does not stop the others.
async fn scrub(
    indexed: IndexedEntities,
    indexes: &[&StoredIndex],
    repairs: bool,
    is_json: bool,
    progress: Progress,
) -> Result<()> {
    let mut progress = progress;
    let mut before = 0;
    let mode = if repairs {
        ScrubMode::Repair
    } else {
        ScrubMode::Report
    };
    let (mut damaged, mut taken, mut skipped) = (0_u64, 0_u64, 0_u64);
    for index in indexes {
        let id = index.id();
        let mut found = ScrubReport::default();
        let mut cursor = Some(ScrubCursor::default());
        let mut end = Ok(());
        while let Some(at) = cursor {
            match indexed.scrub_page(&id, mode, at, &mut found).await {
                Ok(next) => cursor = next,
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
            progress.set(before + (found.entries + found.entities) as u64);
        }
        before += (found.entries + found.entities) as u64;
        match end {
            Ok(()) => {
                match is_json {
                    true => print_json(&scrub_json(&id, &found, repairs))?,
                    false => print(&scrub_line(&id, &found, repairs))?,
                }
                damaged += u64::from(!repairs && found.dangling + found.missing > 0);
                taken += u64::from(found.taken_keys > 0);
            }
            // It would meet the other indexes too.
            Err(error) if is_of_store(&error) => return Err(error.into()),
            Err(error) => {
                remark(&format!("skipped: {id}: {}", Failure::from(error)));
                skipped += 1;
            }
        }
    }
    progress.end();
    let repairable = (damaged > 0).then(|| {
        format!(
            "{} with dangling or missing entries: --repair repairs them",
            count_of_indexes(damaged)
        )
    });
    // A repair cannot decide which of two entities keeps a key that both have.
    let taken = (taken > 0).then(|| {
        format!(
            "taken keys in {}: change or delete one of the entities that have a key, or drop the index",
            count_of_indexes(taken)
        )
    });
    let damage: Vec<_> = repairable.into_iter().chain(taken).collect();
    match (damage.is_empty(), skipped) {
        (true, 0) => Ok(()),
        (true, _) => Err(Failure::Skipped(format!(
            "not compared: {}",
            count_of_indexes(skipped)
        ))),
        _ => Err(Failure::Damaged(damage.join("; "))),
    }
}

/// Whether an error is about the store or the credential, and not about one index.
fn is_of_store(error: &Error) -> bool {
    let kind = error.root().kind();
    error.is_transient()
        || matches!(
            kind,
            ErrorKind::Unauthorized(_)
                | ErrorKind::Forbidden(_)
                | ErrorKind::StorageFull(_)
                | ErrorKind::TableNotFound { .. }
        )
}

fn count_of_indexes(count: u64) -> String {
    if count == 1 {
        "1 index".to_owned()
    } else {
        format!("{count} indexes")
    }
}

fn scrub_json(id: &str, found: &ScrubReport, repairs: bool) -> serde_json::Value {
    let ScrubReport {
        entries,
        dangling,
        entities,
        missing,
        taken_keys,
    } = *found;
    json!({
        "index": id, "entries": entries, "entities": entities, "dangling": dangling, "missing": missing,
        "taken_keys": taken_keys, "repaired": repairs,
    })
}

fn scrub_line(id: &str, found: &ScrubReport, repairs: bool) -> String {
    let ScrubReport {
        entries,
        dangling,
        entities,
        missing,
        taken_keys,
    } = *found;
    let id = one_line(id);
    let end = if repairs && dangling + missing > 0 {
        ", repaired"
    } else {
        ""
    };
    format!(
        "{id}: {entities} entities, {entries} entries, {dangling} dangling, {missing} missing, {taken_keys} taken keys{end}\n"
    )
}
