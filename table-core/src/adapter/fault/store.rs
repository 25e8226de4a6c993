use async_trait::async_trait;

use super::late::{LateWrite, LateWrites};
use super::{CrashPoint, Fault, FaultInjector, kind, page};
use crate::adapter::call::Call;
use crate::forward_to_store;
use crate::model::{Entity, Key, TableName};
use crate::query::{AccessPath, Continuation, Page, Query, ReadablePage, Select};
use crate::store::{GroupTransaction, Operation, OperationKind, Result, TableStore, Written};

/// A store whose requests fail as its [`FaultInjector`] decides.
#[derive(Debug)]
pub struct Faulty<S> {
    store: S,
    faults: FaultInjector,
    late: LateWrites,
}

impl<S: TableStore> Faulty<S> {
    /// Injects faults into the requests to `store`.
    pub fn new(store: S, faults: FaultInjector) -> Self {
        Self { store, faults, late: LateWrites::default() }
    }

    /// Returns the injector.
    pub const fn faults(&self) -> &FaultInjector {
        &self.faults
    }

    /// Returns the wrapped store, for access without faults.
    pub const fn inner(&self) -> &S {
        &self.store
    }

    /// Executes all writes that [`Fault::LateEffect`] has delayed.
    pub async fn settle(&self) {
        self.late.arrive(u64::MAX, &self.store).await;
    }

    async fn next(&self, call: &Call<'_>) -> (u64, Option<Fault>) {
        let (request, fault) = self.faults.next(call);
        self.late.arrive(request, &self.store).await;
        (request, fault)
    }

    async fn run<T>(
        &self,
        call: Call<'_>,
        fault: Option<Fault>,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match fault {
            None | Some(Fault::ShortPage(_)) => request.await,
            Some(Fault::FailBefore) => Err(kind::not_sent()),
            // The write of a late effect is already queued.
            Some(Fault::LoseRequest | Fault::LateEffect { .. }) => Err(kind::lost(call.kind)),
            Some(Fault::LoseAnswer) => {
                // The store executes the request; only the caller does not see the answer.
                let _unseen = request.await;
                Err(kind::lost(call.kind))
            }
            Some(Fault::BreakAnswer) => {
                request.await?;
                Err(kind::broken(call.kind))
            }
            Some(Fault::Throttle { retry_after }) => Err(kind::throttled(retry_after)),
            Some(Fault::TableBeingDeleted) => Err(kind::being_deleted(call.table)),
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                request.await
            }
            Some(Fault::DelayAnswer(time)) => {
                let answer = request.await;
                tokio::time::sleep(time).await;
                answer
            }
            Some(Fault::Crash(CrashPoint::Before)) => Err(kind::crashed()),
            Some(Fault::Crash(CrashPoint::After)) => {
                let _unseen = request.await;
                Err(kind::crashed().with_outcome(kind::lost(call.kind).outcome()))
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore> TableStore for Faulty<S> {
    forward_to_store!(self => self.store;
        profile, declare_encrypted, encrypted_names, local_writers, manifests, now);

    async fn create_table(&self, table: &TableName) -> Result<()> {
        let call = Call::new(OperationKind::CreateTable, table);
        let (_, fault) = self.next(&call).await;
        self.run(call, fault, self.store.create_table(table)).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        let call = Call::new(OperationKind::DeleteTable, table);
        let (_, fault) = self.next(&call).await;
        self.run(call, fault, self.store.delete_table(table)).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        let call = Call::list_tables();
        let (_, fault) = self.next(&call).await;
        let mut page = self.run(call, fault, self.store.list_tables(prefix, from)).await?;
        if let Some(Fault::ShortPage(len)) = fault {
            page::cut_tables(&mut page, len, self.profile(), prefix);
        }
        Ok(page)
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        let call = Call::new(OperationKind::Get, table).at(AccessPath::Point);
        let (_, fault) = self.next(&call).await;
        self.run(call, fault, self.store.get(table, key, select)).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let call = Call::new(OperationKind::Query, table).at(query.access_path());
        let (_, fault) = self.next(&call).await;
        let mut page = self.run(call, fault, self.store.query(table, query, from)).await?;
        if let Some(Fault::ShortPage(len)) = fault {
            page::cut_entities(&mut page, len, self.profile(), table, query);
        }
        Ok(page)
    }

    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let call = Call::new(OperationKind::Query, table).at(query.access_path());
        let (_, fault) = self.next(&call).await;
        let mut found = self.run(call, fault, self.store.query_readable(table, query, from)).await?;
        if let Some(Fault::ShortPage(len)) = fault {
            page::cut_entities(&mut found.page, len, self.profile(), table, query);
        }
        Ok(found)
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let call = Call::new(operation.kind(), table);
        let (request, fault) = self.next(&call).await;
        if let Some(Fault::LateEffect { requests }) = fault {
            // With a permit, as a write in flight has one: a change of the manifest must wait for the late write too.
            let late = LateWrite::One(table.clone(), operation.clone());
            self.late.push(request + requests, late, self.store.local_writers().map(|all| all.enter()));
        }
        self.run(call, fault, self.store.write(table, operation)).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let call = Call::new(OperationKind::Transact, table);
        let (request, fault) = self.next(&call).await;
        if let Some(Fault::LateEffect { requests }) = fault {
            let late = LateWrite::Group(table.clone(), group.clone());
            self.late.push(request + requests, late, self.store.local_writers().map(|all| all.enter()));
        }
        self.run(call, fault, self.store.transact(table, group)).await
    }
}
