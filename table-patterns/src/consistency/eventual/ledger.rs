//! The table of the transactions: heads, and the pieces of plans that no message can carry.

use std::sync::Arc;

use table_core::model::{Entity, IfMatch, Key, TableName, ValueRef};
use table_core::query::{Filter, Query};
use table_core::store::limits::BINARY_BYTES;
use table_core::store::{Error, Operation, Result, TableStore, TableStoreExt as _};

use super::head::{Head, ROW, partition};
use super::plan::{TransactionId, fingerprint};
use crate::rows::took_effect::took_effect;

/// Bytes in a piece: 11 properties, less than a mebibyte also as base64, which is what Azurite measures.
const PIECE: usize = 11 * BINARY_BYTES;
const PREFIX: &str = "c_";

/// How many rows a plan takes.
pub(super) const fn pieces(bytes: usize) -> usize {
    bytes.div_ceil(PIECE)
}

#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) table: TableName,
}

impl Ledger {
    pub(super) async fn read(&self, id: TransactionId) -> Result<Option<Head>> {
        let row = self.store.get(&self.table, &Key::new(partition(id), ROW)?, None).await?;
        row.as_ref().map(Head::read).transpose()
    }

    /// Adds a head; `None` if there is one. An answer in doubt is an error.
    pub(super) async fn insert(&self, head: Head) -> Result<Option<Head>> {
        match took_effect(self.store.write(&self.table, Operation::Insert(head.to_entity()?)).await) {
            Ok(written) => Ok(Some(Head { etag: written.etag, ..head })),
            Err(e) if e.is_already_exists() && !e.is_ambiguous() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Changes a head that was read; `None` if anyone else did, or may have done so.
    pub(super) async fn replace(&self, head: Head) -> Result<Option<Head>> {
        let Some(etag) = head.etag.clone() else { return Ok(None) };
        let replace = Operation::Replace(head.to_entity()?, etag.into());
        match took_effect(self.store.write(&self.table, replace).await) {
            Ok(written) => Ok(Some(Head { etag: written.etag, ..head })),
            Err(e) if e.is_ambiguous() || e.is_precondition_failed() || e.is_entity_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The pieces of two plans under one id have different keys: neither overwrites the other's.
    pub(super) async fn put_piece(&self, plan: PlanOf, n: usize, text: &str) -> Result<()> {
        let bytes = text.as_bytes();
        let piece = &bytes[n * PIECE..bytes.len().min((n + 1) * PIECE)];
        let mut row = Entity::from(plan.piece(n)?);
        for (m, chunk) in piece.chunks(BINARY_BYTES).enumerate() {
            row.properties_mut().set(&format!("P{m}"), chunk);
        }
        took_effect(self.store.write(&self.table, Operation::InsertOrReplace(row)).await).map(drop)
    }

    /// The stored plan; an error if it is not the one that was committed.
    pub(super) async fn plan(&self, head: &Head) -> Result<String> {
        let plan = head.plan_of();
        let of = Filter::eq(Filter::PARTITION_KEY, partition(plan.id));
        let filter = of.and(Filter::starts_with(Filter::ROW_KEY, &plan.prefix()));
        let mut rows = self.store.query_all(&self.table, &Query::new().with_filter(filter)).await?;
        rows.sort_by(|a, b| a.key().row().cmp(b.key().row()));
        let bytes = rows.iter().flat_map(bytes_of).collect();
        let text = String::from_utf8(bytes).ok();
        let text = text.filter(|text| rows.len() == plan.pieces && fingerprint(text) == plan.hash);
        text.ok_or_else(|| {
            Error::corrupt(format!("the stored plan of the transaction {} is damaged", head.id))
        })
    }

    /// Removes what is there of a stored plan.
    pub(super) async fn remove_pieces(&self, plan: PlanOf) -> Result<()> {
        for n in 0..plan.pieces {
            self.delete(plan.piece(n)?, IfMatch::Any).await?;
        }
        Ok(())
    }

    /// Removes a row if it is there in this version.
    pub(super) async fn delete(&self, key: Key, condition: IfMatch) -> Result<()> {
        match took_effect(self.store.write(&self.table, Operation::Delete(key, condition)).await) {
            Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(()),
            deleted => deleted.map(drop),
        }
    }
}

/// Which plan of a transaction, and the rows that hold it: none where a message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanOf {
    pub(super) id: TransactionId,
    pub(super) hash: i64,
    pub(super) pieces: usize,
}

impl PlanOf {
    fn prefix(self) -> String {
        format!("{PREFIX}{:016x}_", self.hash)
    }

    pub(super) fn piece(self, n: usize) -> Result<Key> {
        Key::new(partition(self.id), format!("{}{n:05}", self.prefix()))
    }
}

fn bytes_of(row: &Entity) -> Vec<u8> {
    let chunks = (0..).map_while(|m| match row.get(&format!("P{m}")) {
        Some(ValueRef::Binary(chunk)) => Some(chunk),
        _ => None,
    });
    chunks.flatten().copied().collect()
}
