use std::future::Future;

/// A client, as the measurement sees it. What it is given is made beforehand; what it reads it must have read
/// into fields.
pub(crate) trait Side: Clone + Send + Sync + 'static {
    type Row: Send + Sync + 'static;

    fn row(partition: &str, number: u32) -> Self::Row;

    /// Reads an employee of the partition that was loaded.
    fn get(&self, number: u32) -> impl Future<Output = ()> + Send;

    fn insert(&self, row: &Self::Row) -> impl Future<Output = ()> + Send;

    /// Inserts rows of one partition in one group transaction.
    fn group(&self, partition: &str, rows: &[Self::Row]) -> impl Future<Output = ()> + Send;

    /// Reads the partition that was loaded; how many there are.
    fn scan(&self) -> impl Future<Output = usize> + Send;
}
