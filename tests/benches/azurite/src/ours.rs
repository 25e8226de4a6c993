use table_azure::AzureTableStore;
use table_core::typed::PlainTable;

use crate::employee::{Employee, SALES};
use crate::side::Side;

/// This library: derived structs through a typed table.
#[derive(Clone)]
pub(crate) struct Ours(PlainTable<Employee>);

impl Ours {
    pub(crate) async fn create(connection_string: &str, table: &str) -> Self {
        let store = AzureTableStore::from_connection_string(connection_string, None).unwrap();
        let table = PlainTable::new(store, table).unwrap();
        table.create_if_missing().await.unwrap();
        Self(table)
    }
}

impl Side for Ours {
    type Row = Employee;

    fn row(partition: &str, number: u32) -> Employee {
        Employee::new(partition, number)
    }

    async fn get(&self, number: u32) {
        let read = self
            .0
            .get(Employee::key(SALES, number).unwrap())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(read.number, number);
    }

    async fn insert(&self, row: &Employee) {
        self.0.insert(row).await.unwrap();
    }

    async fn group(&self, partition: &str, rows: &[Employee]) {
        let mut group = self.0.group(Employee::partition(partition).unwrap());
        for row in rows {
            group.insert(row).unwrap();
        }
        assert_eq!(group.commit().await.unwrap().len(), rows.len());
    }

    async fn scan(&self) -> usize {
        let sales = self
            .0
            .query()
            .partition(Employee::partition(SALES).unwrap());
        sales.all().await.unwrap().len()
    }
}
