//! `tables index STORE TABLE add`: a new index from templates.

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use table_core::manifest::{
    Discriminator, IndexDefinition, IndexState, Layout, Manifest, PartSource, Payload, Placement,
    StoredType, TemplatePart,
};
use table_core::model::TableName;
use table_core::query::Query;
use table_core::store::{Error, ErrorKind, TableStore as _};
use table_core::typed::Schema;
use table_patterns::index::{BuildProgress, Index, IndexOptions, IndexedEntities, Shape, Waiting};

use crate::failure::{Failure, MAX_NAMED, Result};
use crate::output::{OutputArgs, one_line, print, print_json, remark};
use crate::progress::{Progress, SharedProgress};
use crate::selection::is_own;
use crate::store::{OpenStore, manifest};

/// The form of templates, for the help.
pub(crate) const TEMPLATE_FORM: &str = "\
A template is text with parts in braces: the value of a property, with a type or a transform after a colon, such as 'age_{Age:u32:03}' or 'name_{LastName:lower}_{RowKey}'. The keys of an entry must contain the key of its entity: end the template of the RowKey with {RowKey}, and with --partition-key with {PartitionKey}_{RowKey}, or give --unique or --list. docs/manifest.md lists the types and transforms.

Programs that write the table maintain the index from its manifest, without a change of their code.";

/// The arguments of `tables index STORE TABLE add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The name of the index
    name: String,
    /// The template of the RowKeys of the entries
    #[arg(long, value_name = "TEMPLATE")]
    row_key: String,
    /// The template of the PartitionKeys of the entries; without it, entries are in the partition of their entity
    #[arg(long, value_name = "TEMPLATE")]
    partition_key: Option<String>,
    /// The table of the entries, which exists; without it, they are in the table of the entities
    #[arg(long, value_name = "TABLE", requires = "partition_key")]
    entries_in: Option<TableName>,
    /// At most one entity has each key: in its partition, or with --partition-key in the table
    #[arg(long)]
    unique: bool,
    /// Properties that entries copy from their entities, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME,…",
        conflicts_with = "full"
    )]
    fields: Vec<String>,
    /// Entries copy every property
    #[arg(long)]
    full: bool,
    /// One entry lists all entities of a key
    #[arg(long, conflicts_with_all = ["unique", "fields", "full"])]
    list: bool,
    /// Only the entities that match a filter in the service's language
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Only the entities of this type, as the manifest or the property EntityType names it
    #[arg(long = "type", value_name = "TYPE")]
    of: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl AddArgs {
    /// Declares the index and builds it. 1 request for the manifest, 1 for a look at the first entities, and the requests of opening and of
    /// the build.
    pub(crate) async fn run(
        &self,
        open: &OpenStore,
        table: &TableName,
        options: IndexOptions,
    ) -> Result<()> {
        let manifest = manifest(&*open.store, table).await?;
        // An index is identified by its name and its definition. The library would take the same name with
        // another template as a second index, which a person hardly means.
        if let Some(known) = manifest
            .indexes
            .iter()
            .find(|stored| stored.name == self.name)
        {
            let (id, state) = (known.id(), known.state);
            return Err(Failure::misuse(format!(
                "the table '{table}' has the index {id}, which is {state}: `tables index STORE {table} build` continues a build; give another name for another index"
            )));
        }
        let index = self.index(&manifest)?;
        self.check(&index, &manifest, table, open.store.profile().encrypts)?;
        self.check_properties(open, &index, &manifest, table)
            .await?;
        let store = Arc::clone(&open.store);
        let opened =
            IndexedEntities::open(store, table.clone(), vec![index.clone()], options).await?;
        let id = index.id();
        let (mut entities, mut entries) = (0, 0);
        if opened.state(id) != IndexState::Readable {
            let build = opened
                .build(id)?
                .on_progress(build_progress(open, self.output.quiet));
            match build.run().await {
                Ok(built) => (entities, entries) = (built.entities, built.entries),
                Err(error) => return Err(self.take_back(&opened, table, id, error).await),
            }
        }
        let state = opened.state(id);
        if self.output.json {
            let report = json!({
                "index": id, "state": state.to_string(), "entities": entities, "entries": entries, "requests": open.meter.total(),
            });
            return print_json(&report);
        }
        let id = one_line(id);
        print(&format!(
            "{id} is {state}: {entities} entities, {entries} entries written\n"
        ))
    }

    /// Removes the index again if entities have the same value of it. Until such an index is built, entities get no new value in it, so every
    /// program that writes the table would be refused. Returns the failure of the command.
    async fn take_back(
        &self,
        opened: &IndexedEntities,
        table: &TableName,
        id: &str,
        error: Error,
    ) -> Failure {
        let ErrorKind::DuplicateValues { duplicates, .. } = error.root().kind() else {
            return error.into();
        };
        let shown: Vec<_> = duplicates
            .iter()
            .take(MAX_NAMED)
            .map(ToString::to_string)
            .collect();
        let more = match duplicates.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let found = format!(
            "the unique index '{}' was not added, because entities have the same value: {}{more}",
            self.name,
            shown.join("; ")
        );
        let tell = |waiting: Waiting| {
            if !self.output.quiet {
                remark(&waiting.to_string());
            }
        };
        Failure::failed(match opened.drop_index_with(id, tell).await {
            Ok(()) => format!(
                "{found}; the table is as before: change or delete one entity of each pair, and add the index again"
            ),
            Err(error) => format!(
                "{found}; the index is not removed yet, and until it is, writes of new values are refused: remove it by `tables index STORE {table} \
                 drop {id}`; {}",
                Failure::from(error)
            ),
        })
    }

    fn index(&self, manifest: &Manifest) -> Result<Index> {
        let placement = match (&self.partition_key, &self.entries_in) {
            // `--entries-in` without `--partition-key` is refused by the parser.
            (None, _) => Placement::SamePartition,
            (Some(_), None) => Placement::OtherPartition,
            (Some(_), Some(other)) => Placement::OtherTable(other.clone()),
        };
        let partition = self.partition_key.as_deref().unwrap_or_default();
        let mut index = Index::keyed(&self.name, placement, partition, &self.row_key)
            .map_err(Failure::misuse)?;
        if !self.fields.is_empty() {
            index = index.with_payload(Payload::fields(self.fields.iter().cloned()));
        } else if self.full {
            index = index.with_payload(Payload::Full);
        }
        if self.list {
            index = index.with_shape(Shape::LIST);
        }
        if let Some(filter) = &self.filter {
            index = index
                .with_condition(filter.clone())
                .map_err(Failure::misuse)?;
        }
        if let Some(of) = &self.of {
            let stored = manifest.types.iter().find(|stored| stored.name() == of);
            // A type that the manifest does not list is recognized by the property EntityType.
            let discriminator = stored
                .and_then(|stored| stored.entity.as_ref())
                .map(|of| &of.discriminator);
            index = match discriminator {
                None => index.with_discriminator(Schema::TYPE_PROPERTY, of.clone()),
                Some(Discriminator::Property(property)) => {
                    index.with_discriminator(property.to_string(), of.clone())
                }
                Some(_) => {
                    return Err(Failure::misuse(format!(
                        "keys, and no property, distinguish the type {of}: a program with the type can declare the index"
                    )));
                }
            };
        }
        if self.unique {
            // Entries in the partitions of their entities can only meet other entries of the same partition.
            index = match self.partition_key {
                None => index.unique_within_partition(),
                Some(_) => index.unique_within_table(),
            };
        }
        index.definition().validate().map_err(Failure::misuse)?;
        self.check_own_key(index.definition())?;
        Ok(index)
    }

    /// Refuses keys that two entities may have: the write of the second one would be refused.
    fn check_own_key(&self, definition: &IndexDefinition) -> Result<()> {
        if self.unique || self.list {
            return Ok(());
        }
        let has = |source: &PartSource| {
            let is_whole = |part: &TemplatePart| part.transforms.is_empty() && !part.each;
            definition
                .parts()
                .any(|part| part.source == *source && is_whole(part))
        };
        let missing = match (has(&PartSource::RowKey), &self.partition_key) {
            (false, _) => "{RowKey}",
            (true, Some(_)) if !has(&PartSource::PartitionKey) => "{PartitionKey}",
            _ => return Ok(()),
        };
        let end = if self.partition_key.is_some() {
            "{PartitionKey}_{RowKey}"
        } else {
            "{RowKey}"
        };
        Err(Failure::misuse(format!(
            "two entities may have an entry of the same key, because the keys of the entries do not contain {missing} of their entity, and \
             writes of the second entity would be refused: end --row-key with {end}, or give --unique or --list"
        )))
    }

    /// Looks for the properties of the index in the first page of the table: a name that no entity has is likely mistyped. 1 request.
    async fn check_properties(
        &self,
        open: &OpenStore,
        index: &Index,
        manifest: &Manifest,
        table: &TableName,
    ) -> Result<()> {
        let page = open
            .store
            .query(table, &Query::new(), None)
            .await?
            .into_page()?;
        let own: Vec<_> = page.items.iter().filter(|row| is_own(row)).collect();
        let definition = index.definition();
        let found: Vec<_> = own
            .iter()
            .filter(|row| definition.entity.admits(row))
            .collect();
        let is_keys = |name: &str| ["PartitionKey", "RowKey", "Timestamp"].contains(&name);
        let mut names = definition.properties_read().map_err(Failure::misuse)?;
        names.extend(self.fields.iter().cloned());
        names.retain(|name| !is_keys(name) && found.iter().all(|row| row.get(name).is_none()));
        // An index may be added before the entities are.
        let problem = match &self.of {
            _ if own.is_empty() => return Ok(()),
            Some(of) if found.is_empty() => {
                if manifest.types.iter().any(|stored| stored.name() == of) {
                    return Ok(());
                }
                format!("has the type {of}")
            }
            _ if names.is_empty() => return Ok(()),
            _ => format!("has the property {}", names.join(" or ")),
        };
        if page.continuation.is_none() {
            return Err(Failure::misuse(format!(
                "no entity of the table '{table}' {problem}, so the index would have no entry of these entities, and nothing was changed: \
                 check the name, or write such an entity first"
            )));
        }
        remark(&format!(
            "warning: none of the first {} entities of {table} {problem}",
            found.len()
        ));
        Ok(())
    }

    /// Refuses an index of entities that are not one row, and an index that would show an encrypted or a large property.
    fn check(
        &self,
        index: &Index,
        manifest: &Manifest,
        table: &TableName,
        decrypts: bool,
    ) -> Result<()> {
        let covered =
            |stored: &&StoredType| self.of.as_deref().is_none_or(|of| of == stored.name());
        for stored in manifest.types.iter().filter(covered) {
            let of = stored.name();
            let refused = |reason: &str| {
                Failure::failed(format!(
                    "{reason}, and nothing was changed: give --type for another type"
                ))
            };
            let large: Vec<&str> = match &stored.layout {
                Layout::Plain => Vec::new(),
                Layout::Large { properties } => properties.iter().map(|name| &**name).collect(),
                other => {
                    return Err(refused(&format!(
                        "the table '{table}' keeps the entities of the type {of} as {other}, which have no indexes"
                    )));
                }
            };
            let read = index.definition().properties_read()?;
            let copies = |name: &str| self.full || self.fields.iter().any(|field| field == name);
            let is_read = |name: &str| read.iter().any(|property| property == name);
            if let Some(name) = stored.encrypted.iter().find(|name| is_read(name)) {
                return Err(refused(&format!(
                    "the index would show '{name}' of the type {of}, which is encrypted"
                )));
            }
            if let Some(name) = stored
                .encrypted
                .iter()
                .find(|name| copies(name))
                .filter(|_| !decrypts)
            {
                return Err(Failure::misuse(format!(
                    "the index would copy '{name}' of the type {of}, which is encrypted: give --keys, and nothing was changed"
                )));
            }
            if let Some(name) = large.into_iter().find(|name| is_read(name) || copies(name)) {
                return Err(refused(&format!(
                    "the index would hold '{name}' of the type {of}, whose values are in blobs"
                )));
            }
        }
        Ok(())
    }
}

/// Shows the entities that a build has read, and the reasons of its waits.
pub(crate) fn build_progress(
    open: &OpenStore,
    is_quiet: bool,
) -> impl FnMut(BuildProgress) + Send + 'static {
    let shown = SharedProgress::new(Progress::new("read", open.meter.clone(), is_quiet));
    move |progress| {
        shown.set(progress.entities as u64);
        if let Some(waiting) = progress.waiting.filter(|_| !is_quiet) {
            shown.end();
            remark(&waiting.to_string());
        }
        if progress.state == IndexState::Readable {
            shown.end();
        }
    }
}
