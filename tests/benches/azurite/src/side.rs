use std::future::Future;

/// A client under measurement. Its input is prepared before the measurement, and its reads must fill the fields
/// of a struct.
pub(crate) trait Side: Clone + Send + Sync + 'static {
    type Row: Send + Sync + 'static;

    fn row(partition: &str, number: u32) -> Self::Row;

    /// Reads one employee of the loaded partition.
    fn get(&self, number: u32) -> impl Future<Output = ()> + Send;

    fn insert(&self, row: &Self::Row) -> impl Future<Output = ()> + Send;

    /// Inserts rows of one partition in one group transaction.
    fn group(&self, partition: &str, rows: &[Self::Row]) -> impl Future<Output = ()> + Send;

    /// Reads the loaded partition and returns its number of entities.
    fn scan(&self) -> impl Future<Output = usize> + Send;
}
