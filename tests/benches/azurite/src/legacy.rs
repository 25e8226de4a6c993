use azure_data_tables::clients::{TableClient, TableServiceClientBuilder};
use azure_data_tables::operations::InsertEntityResponse;
use azure_data_tables::prelude::Filter;
use azure_storage::{CloudLocation, StorageCredentials};
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::employee::{Plain, SALES, row_key};
use crate::side::Side;

/// The crate of the legacy Rust SDK.
#[derive(Clone)]
pub(crate) struct Legacy(TableClient);

impl Legacy {
    pub(crate) fn new(endpoint: &str, table: &str) -> Self {
        let port = endpoint
            .split([':', '/'])
            .find_map(|part| part.parse().ok())
            .unwrap();
        let location = CloudLocation::Emulator {
            address: "127.0.0.1".to_owned(),
            port,
        };
        let service =
            TableServiceClientBuilder::with_location(location, StorageCredentials::emulator())
                .build();
        Self(service.table_client(table))
    }
}

impl Side for Legacy {
    type Row = Plain;

    fn row(partition: &str, number: u32) -> Plain {
        Plain::new(partition, number)
    }

    async fn get(&self, number: u32) {
        let row_key = row_key(number);
        let entity = self
            .0
            .partition_key_client(SALES)
            .entity_client(row_key.as_str());
        let read: Plain = entity.get().await.unwrap().entity;
        assert_eq!(read.row_key, row_key);
    }

    async fn insert(&self, row: &Plain) {
        let _: InsertEntityResponse<Value> = self.0.insert(row).unwrap().await.unwrap();
    }

    async fn group(&self, partition: &str, rows: &[Plain]) {
        let mut group = self.0.partition_key_client(partition).transaction();
        for row in rows {
            group = group.insert(row).unwrap();
        }
        let answer = group.await.unwrap();
        assert_eq!(
            answer
                .operation_responses
                .iter()
                .filter(|r| r.status_code.is_success())
                .count(),
            rows.len()
        );
    }

    async fn scan(&self) -> usize {
        let filter = Filter::new(format!("PartitionKey eq '{SALES}'"));
        let mut pages = self.0.query().filter(filter).into_stream::<Plain>();
        let mut rows = Vec::new();
        while let Some(page) = pages.next().await {
            rows.extend(page.unwrap().entities);
        }
        rows.len()
    }
}
