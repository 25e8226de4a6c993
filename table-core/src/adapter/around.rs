use super::call::{Answer, Call};
use crate::model::TableName;
use crate::query::Query;
use crate::store::Result;

/// An adapter that runs the same code around every request. [`impl_around`] implements the store.
pub(super) trait Around: Sync {
    /// Runs `request` and returns its result. `call` says what kind of request it is, for counts and spans.
    fn around<T: Answer + Send>(
        &self,
        call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Returns the key, if the adapter shows keys.
    fn shown(&self, _key: impl FnOnce() -> String) -> Option<String> {
        None
    }

    /// Refuses a query that must not be sent.
    fn check(&self, _table: &TableName, _query: &Query) -> Result<()> {
        Ok(())
    }
}

/// Implements [`TableStore`](crate::store::TableStore) for an [`Around`] with a field `store`.
// A macro and no `impl<A: Around> TableStore for A`: next to that, the compiler would accept no other implementation
// for a generic type.
macro_rules! impl_around {
    ($adapter:ident) => {
        #[async_trait::async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<S: TableStore> TableStore for $adapter<S> {
            async fn create_table(&self, table: &TableName) -> Result<()> {
                self.around(Call::new(OperationKind::CreateTable, table), self.store.create_table(table))
                    .await
            }

            async fn delete_table(&self, table: &TableName) -> Result<()> {
                self.around(Call::new(OperationKind::DeleteTable, table), self.store.delete_table(table))
                    .await
            }

            async fn list_tables(
                &self,
                prefix: Option<&str>,
                from: Option<&$crate::query::Continuation>,
            ) -> Result<$crate::query::Page<TableName>> {
                self.around(Call::list_tables(), self.store.list_tables(prefix, from)).await
            }

            async fn get(
                &self,
                table: &TableName,
                key: &$crate::model::Key,
                select: Option<&$crate::query::Select>,
            ) -> Result<Option<$crate::model::Entity>> {
                let call = Call::new(OperationKind::Get, table).at($crate::query::AccessPath::Point);
                let call = call.key(self.shown(|| key.to_string()));
                self.around(call, self.store.get(table, key, select)).await
            }

            async fn query(
                &self,
                table: &TableName,
                query: &$crate::query::Query,
                from: Option<&$crate::query::Continuation>,
            ) -> Result<$crate::query::Page<$crate::model::Entity>> {
                self.check(table, query)?;
                let call = Call::new(OperationKind::Query, table).at(query.access_path());
                self.around(call, self.store.query(table, query, from)).await
            }

            async fn query_readable(
                &self,
                table: &TableName,
                query: &$crate::query::Query,
                from: Option<&$crate::query::Continuation>,
            ) -> Result<$crate::query::ReadablePage> {
                self.check(table, query)?;
                let call = Call::new(OperationKind::Query, table).at(query.access_path());
                self.around(call, self.store.query_readable(table, query, from)).await
            }

            async fn write(
                &self,
                table: &TableName,
                operation: $crate::store::Operation,
            ) -> Result<$crate::store::Written> {
                let call = Call::new(operation.kind(), table);
                let call = call.key(self.shown(|| operation.key().to_string()));
                self.around(call, self.store.write(table, operation)).await
            }

            async fn transact(
                &self,
                table: &TableName,
                group: $crate::store::GroupTransaction,
            ) -> Result<Vec<$crate::store::Written>> {
                let call = Call::new(OperationKind::Transact, table);
                let call = call.key(self.shown(|| group.partition().to_string()));
                self.around(call, self.store.transact(table, group)).await
            }

            $crate::forward_to_store!(self => self.store;
                profile, declare_encrypted, encrypted_names, local_writers, manifests, now);
        }
    };
}

pub(super) use impl_around;
