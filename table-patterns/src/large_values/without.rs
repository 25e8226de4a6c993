//! Stands for the writer of large values in a build without the feature `blobs`.

use std::convert::Infallible;

use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key};
use table_core::store::{Result, Written};
use table_core::typed::set::{RowChange, SetWriter};

use crate::index::IndexedEntities;
use crate::journal::Change;

/// No value of this type exists.
#[derive(Clone, Debug)]
pub(crate) struct EntityWriter {
    never: Infallible,
}

impl EntityWriter {
    pub(crate) fn ignoring_indexes(self) -> Self {
        match self.never {}
    }

    pub(crate) fn with_bounds(self, _attempts: u32, _concurrency: usize) -> Self {
        match self.never {}
    }

    pub(crate) fn maintaining(&self, _indexes: Option<&IndexedEntities>) -> Self {
        match self.never {}
    }

    pub(crate) const fn indexes(&self) -> Option<&IndexedEntities> {
        match self.never {}
    }

    pub(crate) async fn write(&self, _change: Change) -> Result<Written> {
        match self.never {}
    }

    pub(crate) async fn write_row(&self, _change: Change) -> Result<(Written, Option<Entity>)> {
        match self.never {}
    }

    pub(crate) async fn merge_row(&self, _old: &Entity, _patch: Entity) -> Result<Written> {
        match self.never {}
    }

    pub(crate) async fn upgrade(&self, _old: Entity, _new: Entity) -> Result<Written> {
        match self.never {}
    }

    pub(crate) async fn move_to(&self, _key: &Key, _target: &Self, _to: &Key) -> Result<()> {
        match self.never {}
    }

    pub(crate) async fn modify(
        &self,
        _key: &Key,
        _change: impl FnMut(Option<&Entity>) -> Result<Option<Entity>> + Send,
    ) -> Result<Option<Written>> {
        match self.never {}
    }
}

/// No value of this type exists.
#[derive(Debug)]
pub(crate) struct GroupBlobs {
    never: Infallible,
}

impl GroupBlobs {
    pub(crate) fn new(writer: &EntityWriter, _indexes: Option<&IndexedEntities>) -> Self {
        match writer.never {}
    }

    pub(crate) fn replaces(&mut self, _old: &Entity) {
        match self.never {}
    }

    pub(crate) fn keeps(&mut self, _now: &Entity) {
        match self.never {}
    }

    pub(crate) async fn check(&self, _of_type: &EntityWriter, _key: &Key) -> Result<()> {
        match self.never {}
    }

    pub(crate) async fn store(&mut self, _of_type: &EntityWriter, _new: &mut Entity) -> Result<()> {
        match self.never {}
    }

    pub(crate) async fn withdraw(&self) {
        match self.never {}
    }

    pub(crate) async fn commit<W>(&self, _write: impl Future<Output = Result<W>>) -> Result<W> {
        match self.never {}
    }
}

impl SetWriter for EntityWriter {
    fn check<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<()>> {
        match self.never {}
    }

    fn most_operations(&self) -> usize {
        match self.never {}
    }

    fn write<'a>(
        &'a self,
        _changes: &'a [RowChange],
    ) -> BoxFuture<'a, Result<(Vec<Written>, bool)>> {
        match self.never {}
    }

    fn read<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>> {
        match self.never {}
    }
}
