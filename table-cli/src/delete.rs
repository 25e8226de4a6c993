//! `tables delete`.

use std::pin::pin;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, future};
use serde_json::json;
use table_core::model::{Entity, INDEX_NAME, TableName};
use table_core::query::{Filter, Query, Select};
use table_core::store::{Error, Operation};
use table_patterns::bulk::{BulkOptions, BulkWriter, scan_partitions, split_partitions};
use table_patterns::index::{IndexOptions, IndexedEntities};

use crate::failure::{Failure, Outcomes, Result};
use crate::keys::{KeyArgs, check_keys};
use crate::layouts::check_layouts;
use crate::output::{ask, print, print_json, remark};
use crate::pace::{InFlight, LongArgs, until_stopped};
use crate::progress::Progress;
use crate::selection::{is_own, partition_key, query};
use crate::store::{Access, OpenStore, StoreName, manifest};

/// The arguments of `tables delete`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("entities").required(true).args(["filter", "partition", "all"])))]
pub(crate) struct DeleteArgs {
    /// The store
    store: StoreName,
    /// The table
    table: TableName,
    /// The entities that match a filter in the service's language, for example "Age gt 30 and City eq 'Oslo'"
    #[arg(long, value_name = "TEXT")]
    filter: Option<Filter>,
    /// The entities with this PartitionKey
    #[arg(long, value_name = "P", value_parser = partition_key)]
    partition: Option<String>,
    /// Every entity; the table and its manifest stay
    #[arg(long)]
    all: bool,
    /// Print how many entities would be deleted, and delete none
    #[arg(long)]
    dry_run: bool,
    /// Delete without a question
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    in_flight: InFlight,
    #[command(flatten)]
    long: LongArgs,
}

impl DeleteArgs {
    /// Counts the entities, asks, and deletes them. 1 request for the manifest and 1 per page to count; then 1 per page and 1 per group of
    /// up to 100 entities of a partition. In a table with indexes a read and a write for each entity.
    pub(crate) async fn run(&self) -> Result<()> {
        let table = &self.table;
        let keys = Select::new([Filter::PARTITION_KEY, Filter::ROW_KEY, INDEX_NAME]);
        let query = query(self.partition.as_deref(), None, self.filter.as_ref()).with_select(keys);
        let access = if self.dry_run {
            Access::Read
        } else {
            Access::WriteExisting
        };
        let work = async |open: &mut OpenStore| {
            self.keys.apply(open, std::slice::from_ref(table)).await?;
            self.count_and_delete(open, &query).await
        };
        self.store.with_open(access, self.long.pace, work).await
    }

    async fn count_and_delete(&self, open: &OpenStore, query: &Query) -> Result<()> {
        let table = &self.table;
        let manifest = manifest(&*open.store, table).await?;
        check_layouts(&manifest, table)?;
        check_keys(&manifest, table, &*open.store)?;
        // The question names the number. The entities are read again for the deletion, and each is deleted under the ETag of that read:
        // an entity that changes after it may no longer match.
        let count = async {
            let entities = matching_entities(open, table, query);
            Ok(entities
                .try_fold(0_u64, |count, _| future::ok(count + 1))
                .await?)
        };
        let count = until_stopped(count, "nothing was deleted: run the same command again").await?;
        if self.dry_run {
            return self.print_dry_run(count, open.meter.total());
        }
        if count > 0
            && !self.yes
            && !ask(&format!(
                "Delete {count} entities of {table} in {}?",
                self.store
            ))
        {
            return Err(Failure::misuse(
                "nothing was deleted: answer y, or give --yes",
            ));
        }
        let mut outcomes = Outcomes::default();
        let is_indexed = !manifest.indexes.is_empty();
        let delete = self.delete(open, query, is_indexed, count, &mut outcomes);
        let resume = "run the same command again to delete the rest";
        let done = until_stopped(delete, resume)
            .await
            .map_err(|failure| failure.with_resume(resume));
        // After an interruption too: the report says how many entities are deleted.
        let end = self.print_report(&outcomes, done.is_ok(), open.meter.total());
        done.and(end)
    }

    async fn delete(
        &self,
        open: &OpenStore,
        query: &Query,
        is_indexed: bool,
        count: u64,
        outcomes: &mut Outcomes,
    ) -> Result<()> {
        let mut progress =
            Progress::new("deleted", open.meter.clone(), self.long.quiet).with_total(count);
        let table = &self.table;
        let entities = matching_entities(open, table, query);
        if is_indexed {
            // The bulk writer knows no indexes. With indexes, each entity is deleted by the protocol that
            // deletes its entries too.
            let (store, options) = (Arc::clone(&open.store), IndexOptions::default());
            let indexed = IndexedEntities::open(store, table.clone(), Vec::new(), options).await?;
            let deletes = entities.map_ok(|entity| delete_indexed(&indexed, entity));
            let mut deletes = pin!(deletes.try_buffer_unordered(self.in_flight.concurrency.max(1)));
            while let Some((key, end)) = deletes.try_next().await? {
                match end {
                    Ok(true) => outcomes.add(&key, None)?,
                    Ok(false) => {
                        outcomes.skip(format!("{key}: another program has changed the entity"));
                    }
                    Err(error) => outcomes.add(&key, Some(&error))?,
                }
                progress.add(1);
            }
            // Journal rows of the last deletions are cleared after their answers. Without the wait, a sweep
            // would have to do it.
            indexed.flush().await;
        } else {
            let name = table.clone();
            let deletes = entities.map(move |entity| {
                let entity = entity?;
                let version = entity.version()?;
                Ok((
                    name.clone(),
                    Operation::Delete(entity.key().clone(), version),
                ))
            });
            let options = BulkOptions::default()
                .with_concurrency(self.in_flight.concurrency)
                .with_retry(None);
            let mut deletes =
                pin!(BulkWriter::with_options(Arc::clone(&open.store), options).outcomes(deletes));
            while let Some(outcome) = deletes.try_next().await? {
                // An entity that another program deleted meets the purpose; so does one that a lost answer of this command deleted.
                let error = outcome
                    .result
                    .as_ref()
                    .err()
                    .filter(|error| !is_gone(error));
                outcomes.add(&outcome.key.to_string(), error)?;
                progress.add(1);
            }
        }
        progress.end();
        Ok(())
    }

    fn print_dry_run(&self, count: u64, requests: u64) -> Result<()> {
        match self.long.json {
            true => print_json(&json!({"table": self.table, "found": count, "requests": requests})),
            false => print(&format!(
                "{count} entities of {} would be deleted\n",
                self.table
            )),
        }
    }

    fn print_report(&self, outcomes: &Outcomes, is_whole: bool, requests: u64) -> Result<()> {
        let (
            table,
            Outcomes {
                done,
                skipped,
                ambiguous,
                named,
            },
        ) = (&self.table, outcomes);
        if self.long.json {
            let report = json!({
                "table": table.as_str(), "is_complete": is_whole, "deleted": done, "skipped": skipped, "ambiguous": ambiguous, "requests": requests,
                "first_skipped": named,
            });
            print_json(&report)?;
        } else {
            named
                .iter()
                .for_each(|row| remark(&format!("skipped: {row}")));
            if !self.long.quiet {
                // A command that ends early leaves requests without an answer, which may have deleted entities.
                let at_least = if is_whole { "" } else { "at least " };
                remark(&format!(
                    "{table}: {at_least}{done} entities deleted, {skipped} skipped, {requests} requests"
                ));
            }
        }
        match (skipped, ambiguous) {
            (0, 0) => Ok(()),
            (_, 0) => Err(Failure::Skipped(format!(
                "{skipped} entities were not deleted"
            ))),
            _ => Err(Failure::failed(format!(
                "{ambiguous} entities were perhaps deleted: run the same command again"
            ))),
        }
    }
}

/// The entities of the query, without index entries and system rows.
fn matching_entities(
    open: &OpenStore,
    table: &TableName,
    query: &Query,
) -> impl Stream<Item = Result<Entity, Error>> + Send + Unpin + use<> {
    let everywhere = split_partitions::<String>([]);
    let rows = scan_partitions(Arc::clone(&open.store), table, query, everywhere, 1);
    Box::pin(rows.try_filter(|row| future::ready(is_own(row))))
}

/// Deletes an entity with its index entries. Returns its key, and whether it is gone: not if another program has changed it.
async fn delete_indexed(
    indexed: &IndexedEntities,
    found: Entity,
) -> Result<(String, Result<bool, Error>), Error> {
    let delete = async {
        // The page has only keys, and the deletion needs every property from which an entry has its key. The
        // ETag shows whether the entity has changed since the filter selected it.
        match indexed.get(found.key()).await? {
            Some(stored) if Some(stored.etag()) == found.etag() => {
                match indexed.delete(&stored).await {
                    Err(error) if is_gone(&error) => Ok(true),
                    end => end.map(|_| true),
                }
            }
            // An entity that is gone meets the purpose. Another version may not match the filter, so it
            // stays.
            stored => Ok(stored.is_none()),
        }
    };
    let end = delete.await;
    Ok((found.key().to_string(), end))
}

/// Whether another program has deleted the entity.
fn is_gone(error: &Error) -> bool {
    error.is_entity_not_found() && !error.is_ambiguous()
}
