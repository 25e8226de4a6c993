/// Implements methods of [`TableStore`](crate::store::TableStore) by calls of the same methods of another store.
///
/// For a store that wraps a store. An impl under `#[async_trait]` writes the methods that it changes, and lists the methods
/// that it forwards. Add `#[deny(clippy::missing_trait_methods)]`, so that no method gets its default by mistake.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use async_trait::async_trait;
/// use table_core::forward_to_store;
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, TableName};
/// use table_core::store::{GroupTransaction, Operation, Result, TableStore, Written};
///
/// /// Counts the writes.
/// #[derive(Debug)]
/// struct CountedWrites<S> {
///     store: S,
///     writes: AtomicU64,
/// }
///
/// #[async_trait]
/// #[deny(clippy::missing_trait_methods)]
/// impl<S: TableStore> TableStore for CountedWrites<S> {
///     forward_to_store!(self => self.store;
///         profile, create_table, delete_table, list_tables, get, query, context);
///
///     async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
///         self.writes.fetch_add(1, Ordering::Relaxed);
///         self.store.write(table, operation).await
///     }
///
///     async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
///         self.writes.fetch_add(1, Ordering::Relaxed);
///         self.store.transact(table, group).await
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let store = CountedWrites { store: MemoryStore::new(), writes: AtomicU64::new(0) };
/// let table = TableName::new("Employees")?;
/// store.create_table(&table).await?;
/// store.write(&table, Operation::Insert(Entity::new("Sales", "000223")?)).await?;
/// assert_eq!(store.writes.into_inner(), 1);
/// # Ok(())
/// # }
/// ```
// `async_trait` does not look into a macro call in an impl. The methods below therefore have the signatures that it makes
// of the trait's methods: a lifetime for each reference, then the lifetime of the future. The future of the other
// store is returned as it is, without another box.
#[macro_export]
macro_rules! forward_to_store {
    ($self:ident => $store:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward_to_store!(@$method $self $store);)+
    };
    (@profile $self:ident $store:expr) => {
        fn profile(&$self) -> &$crate::store::ServiceProfile {
            $store.profile()
        }
    };
    (@create_table $self:ident $store:expr) => {
        $crate::forward_to_store!(@future ['t] create_table $self $store;
            (table: &'t $crate::model::TableName) -> ());
    };
    (@delete_table $self:ident $store:expr) => {
        $crate::forward_to_store!(@future ['t] delete_table $self $store;
            (table: &'t $crate::model::TableName) -> ());
    };
    (@list_tables $self:ident $store:expr) => {
        $crate::forward_to_store!(@future ['p, 'c] list_tables $self $store;
            (prefix: Option<&'p str>, from: Option<&'c $crate::query::Continuation>)
            -> $crate::query::Page<$crate::model::TableName>);
    };
    (@get $self:ident $store:expr) => {
        $crate::forward_to_store!(@future ['t, 'k, 'p] get $self $store;
            (
                table: &'t $crate::model::TableName,
                key: &'k $crate::model::Key,
                select: Option<&'p $crate::query::Select>
            ) -> Option<$crate::model::Entity>);
    };
    (@query $self:ident $store:expr) => {
        $crate::forward_to_store!(@future ['t, 'q, 'c] query $self $store;
            (
                table: &'t $crate::model::TableName,
                query: &'q $crate::query::Query,
                from: Option<&'c $crate::query::Continuation>
            ) -> $crate::query::ReadablePage);
    };
    (@write $self:ident $store:expr) => {
        $crate::forward_to_store!(@future ['t] write $self $store;
            (table: &'t $crate::model::TableName, operation: $crate::store::Operation) -> $crate::store::Written);
    };
    (@transact $self:ident $store:expr) => {
        $crate::forward_to_store!(@future ['t] transact $self $store;
            (table: &'t $crate::model::TableName, group: $crate::store::GroupTransaction)
            -> Vec<$crate::store::Written>);
    };
    (@context $self:ident $store:expr) => {
        fn context(&$self) -> &$crate::store::StoreContext {
            $store.context()
        }
    };
    (@future [$($life:lifetime),+] $method:ident $self:ident $store:expr;
        ($($name:ident: $of:ty),+) -> $answer:ty) => {
        fn $method<'s, $($life,)+ 'f>(
            &'s $self,
            $($name: $of),+
        ) -> ::std::pin::Pin<
            ::std::boxed::Box<dyn ::std::future::Future<Output = $crate::store::Result<$answer>> + Send + 'f>,
        >
        where
            's: 'f,
            $($life: 'f,)+
            Self: 'f,
        {
            $store.$method($($name),+)
        }
    };
}
