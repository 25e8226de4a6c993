//! The in-memory store: complete semantics, no files.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;

use crate::engine::{self, Change, Scan, ScanStep, Stamp, apply_group, apply_to, read_entity};
use crate::model::{Entity, Key, TableName, Ticks};
use crate::query::{Continuation, Page, Query, ReadablePage, Select};
use crate::store::{
    ErrorKind, GroupTransaction, Operation, Result, ServiceProfile, StoreContext, TableStore,
    Written,
};

/// An in-memory [`TableStore`] with the semantics of the service. For tests, caches
/// and programs whose data need not outlive them.
///
/// Cloning is cheap; clones share the data. Any number of tasks may use it concurrently: readers of a table
/// run in parallel, writers of a table one after another.
///
/// ```
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, TableName};
/// use table_core::store::{Operation, TableStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let store = MemoryStore::new();
/// let table = TableName::new("Employees")?;
/// store.create_table(&table).await?;
/// let entity = Entity::new("Sales", "empid_000223")?.with("FirstName", "Ken");
/// store.write(&table, Operation::Insert(entity.clone())).await?;
/// let read = store.get(&table, entity.key(), None).await?;
/// assert_eq!(read.unwrap().properties(), entity.properties());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    profile: ServiceProfile,
    tables: RwLock<BTreeMap<String, Arc<MemoryTable>>>,
    /// The version number of the last write to any table.
    version: AtomicU64,
    context: StoreContext,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_profile(ServiceProfile::LOCAL)
    }
}

impl MemoryStore {
    /// Creates an empty store with the limits of Azure Table Storage.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty store with other limits. It always sorts.
    pub fn with_profile(profile: ServiceProfile) -> Self {
        let shared = Shared {
            context: StoreContext::new(&profile).with_local_writers(Arc::default()),
            profile,
            tables: RwLock::default(),
            version: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn stamp(&self) -> Stamp {
        // Relaxed is enough: the table's lock orders the versions of a row.
        Stamp {
            version: self.shared.version.fetch_add(1, Ordering::Relaxed) + 1,
            time: Ticks::now(),
        }
    }

    fn table(&self, table: &TableName) -> Result<Arc<MemoryTable>> {
        let tables = self
            .shared
            .tables
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let missing = || {
            ErrorKind::TableNotFound {
                table: table.to_string(),
            }
            .into()
        };
        tables
            .get(&self.shared.profile.table_identity(table))
            .cloned()
            .ok_or_else(missing)
    }
}

#[async_trait]
impl TableStore for MemoryStore {
    fn profile(&self) -> &ServiceProfile {
        &self.shared.profile
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        use std::collections::btree_map::Entry;
        let new = self.shared.context.new_table(table);
        let mut tables = self
            .shared
            .tables
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match tables.entry(self.shared.profile.table_identity(table)) {
            Entry::Occupied(_) => Err(ErrorKind::TableAlreadyExists {
                table: table.to_string(),
            }
            .into()),
            Entry::Vacant(entry) => {
                entry.insert(Arc::new(MemoryTable::new(table.clone())));
                new.created();
                Ok(())
            }
        }
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        // Kept to the end of the function: the cache forgets the manifest before and after the table is removed.
        let _change = self.shared.context.manifests().change(table);
        let mut tables = self
            .shared
            .tables
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match tables.remove(&self.shared.profile.table_identity(table)) {
            Some(_) => Ok(()),
            None => Err(ErrorKind::TableNotFound {
                table: table.to_string(),
            }
            .into()),
        }
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        let start = from.map(|c| c.tables_position(prefix)).transpose()?;
        let start = start.map_or("", |p| p.first.as_str());
        let tables = self
            .shared
            .tables
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let names = tables
            .range(start.to_owned()..)
            .map(|(id, table)| (id.as_str(), &table.name));
        Ok(engine::list_page(&self.shared.profile, prefix, names))
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let table = self.table(table)?;
        let rows = table.read();
        let row = rows.get(&key.to_sortable());
        row.map(|bytes| read_entity(key.clone(), bytes, select))
            .transpose()
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        engine::check_query(&self.shared.profile, query)?;
        let table = self.table(table)?;
        // A page is read under one lock. `Scan` bounds the rows that it visits, and so the time for which writers
        // wait.
        let mut scan = Scan::new(&self.shared.profile, &table.name, query, from)?;
        let rows = table.read();
        if let Some((from, to)) = owned(scan.range()) {
            for (key, record) in rows.range::<[u8], _>((as_ref(&from), as_ref(&to))) {
                if scan.offer(key, record)? == ScanStep::Done {
                    break;
                }
            }
        }
        Ok(scan.finish().into())
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        engine::check_operation(&self.shared.profile, &operation)?;
        // Kept to the end of the function, as in `delete_table`.
        let _change = self
            .shared
            .context
            .manifests()
            .change_of(table, operation.key().partition());
        let table = self.table(table)?;
        let mut rows = table.write();
        // The stamp is taken under the lock, so that the versions of a table rise in the order of its writes.
        let (key, change) = apply_to(
            &*rows,
            &self.shared.profile,
            &table.name,
            operation,
            self.stamp(),
        )?;
        let written = change.written();
        apply_change(&mut rows, key, change);
        Ok(written)
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        engine::check_group(&self.shared.profile, &group)?;
        let _change = self
            .shared
            .context
            .manifests()
            .change_of(table, group.partition().as_str());
        let table = self.table(table)?;
        let mut rows = table.write();
        let stamp = || self.stamp();
        let changes = apply_group(
            &*rows,
            &self.shared.profile,
            &table.name,
            group.into_operations(),
            stamp,
        )?;
        let written = changes.iter().map(|(_, change)| change.written()).collect();
        changes
            .into_iter()
            .for_each(|(key, change)| apply_change(&mut rows, key, change));
        Ok(written)
    }

    fn context(&self) -> &StoreContext {
        &self.shared.context
    }
}

/// The rows of one table: bytes of an [`engine::Record`] by sortable key.
#[derive(Debug)]
struct MemoryTable {
    name: TableName,
    rows: RwLock<RowMap>,
}

type RowMap = BTreeMap<Vec<u8>, Vec<u8>>;

impl engine::Rows for RowMap {
    fn with_row<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> Result<R>,
    ) -> Result<R> {
        decide(self.get(key).map(Vec::as_slice))
    }
}

impl MemoryTable {
    fn new(name: TableName) -> Self {
        Self {
            name,
            rows: RwLock::default(),
        }
    }

    // A panic cannot leave the map partly changed: all changes are decided before the first is stored.
    fn read(&self) -> RwLockReadGuard<'_, RowMap> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RowMap> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn apply_change(rows: &mut RowMap, key: Vec<u8>, change: Change) {
    match change {
        Change::Put(record) => rows.insert(key, record.to_bytes()),
        Change::Remove => rows.remove(&key),
    };
}

type Bounds<B> = (Bound<B>, Bound<B>);

/// Copies a range, so that the scan can be changed while the rows of its range are visited.
fn owned(range: Option<Bounds<&[u8]>>) -> Option<Bounds<Vec<u8>>> {
    range.map(|(from, to)| (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec)))
}

fn as_ref(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
