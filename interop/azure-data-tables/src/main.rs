//! Runs the retired crate `azure_data_tables` 0.21 on `tables serve`: its single writes, its queries and its transactions, whose body
//! ends without the hyphens of the last delimiter. The argument is the path of the program `tables`.

use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use azure_data_tables::clients::TableServiceClientBuilder;
use azure_data_tables::operations::InsertEntityResponse;
use azure_data_tables::prelude::{PartitionKeyClient, TableClient};
use azure_data_tables::{IfMatchCondition, ReturnEntity};
use azure_storage::{CloudLocation, StorageCredentials};
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    #[serde(rename = "PartitionKey")]
    customer: String,
    #[serde(rename = "RowKey")]
    number: String,
    amount: i32,
}

fn order(number: &str, amount: i32) -> Order {
    Order {
        customer: "contoso".to_owned(),
        number: number.to_owned(),
        amount,
    }
}

/// A server that ends with this program.
struct Server {
    process: Child,
    /// The URL of the account.
    endpoint: String,
}

impl Server {
    fn start(program: &str) -> Result<Self> {
        let mut process = Command::new(program)
            .args(["serve", "memory", "--listen", "127.0.0.1:0", "--until-eof"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("a pipe")?).read_line(&mut line)?;
        let endpoint = line
            .split(';')
            .find_map(|setting| setting.trim().strip_prefix("TableEndpoint="));
        let endpoint = endpoint
            .ok_or_else(|| format!("no connection string: {line:?}"))?
            .to_owned();
        Ok(Self { process, endpoint })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that the server has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn check(name: &str, holds: bool) -> Result<()> {
    println!("{} {name}", if holds { "ok    " } else { "FAILED" });
    if holds {
        Ok(())
    } else {
        Err(format!("{name} failed").into())
    }
}

async fn stored(orders: &TableClient) -> Result<Vec<(String, i32)>> {
    let mut found = Vec::new();
    let mut pages = orders.query().into_stream::<Order>();
    while let Some(page) = pages.next().await {
        found.extend(
            page?
                .entities
                .into_iter()
                .map(|order| (order.number, order.amount)),
        );
    }
    found.sort();
    Ok(found)
}

async fn single_writes(orders: &TableClient, customer: &PartitionKeyClient) -> Result<()> {
    let inserted: InsertEntityResponse<Order> = orders
        .insert(&order("1", 10))?
        .return_entity(ReturnEntity::from(true))
        .await?;
    check(
        "an insert returns the entity",
        inserted.entity_with_metadata.map(|it| it.entity) == Some(order("1", 10)),
    )?;
    let entity = customer.entity_client("1");
    entity.insert_or_replace(order("1", 11))?.await?;
    check(
        "a read returns the write",
        entity.get::<Order>().await?.entity == order("1", 11),
    )?;
    entity.delete().await?;
    check(
        "a deleted entity is gone",
        entity.get::<Order>().await.is_err(),
    )
}

async fn transactions(orders: &TableClient, customer: &PartitionKeyClient) -> Result<()> {
    let written = customer
        .transaction()
        .insert(order("1", 1))?
        .insert(order("2", 2))?
        .insert_or_replace("3", order("3", 3))?
        .insert_or_merge("4", order("4", 4))?
        .into_future()
        .await?;
    let statuses: Vec<u16> = written
        .operation_responses
        .iter()
        .map(|it| it.status_code.into())
        .collect();
    check(
        "a transaction of 4 writes",
        statuses == [201, 201, 204, 204],
    )?;
    let all = [("1", 1), ("2", 2), ("3", 3), ("4", 4)]
        .map(|(number, amount)| (number.to_owned(), amount));
    check(
        "every write of the transaction is stored",
        stored(orders).await? == all,
    )?;
    customer
        .transaction()
        .update("1", order("1", 5), None)?
        .merge("2", order("2", 6), Some(IfMatchCondition::Any))?
        .delete("3", None)?
        .into_future()
        .await?;
    let changed =
        [("1", 5), ("2", 6), ("4", 4)].map(|(number, amount)| (number.to_owned(), amount));
    check(
        "a transaction of an update, a merge and a deletion",
        stored(orders).await? == changed,
    )?;
    let conflict = customer
        .transaction()
        .insert(order("5", 5))?
        .insert(order("1", 9))?
        .into_future()
        .await;
    let refused = conflict.map(|it| {
        it.operation_responses
            .iter()
            .any(|it| u16::from(it.status_code) == 409)
    });
    check(
        "a transaction with a conflict is refused",
        refused.unwrap_or(true),
    )?;
    check("and changes nothing", stored(orders).await? == changed)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let program = std::env::args()
        .nth(1)
        .ok_or("usage: interop-azure-data-tables TABLES")?;
    let server = Server::start(&program)?;
    let (account, key) = (
        "devstoreaccount1",
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    );
    let uri = std::env::var("ENDPOINT").unwrap_or_else(|_| server.endpoint.clone());
    let location = CloudLocation::Custom {
        account: account.to_owned(),
        uri,
    };
    let credentials = StorageCredentials::access_key(account, key.to_owned());
    let service = TableServiceClientBuilder::with_location(location, credentials)
        .retry(azure_core::RetryOptions::none())
        .build();
    let orders = service.table_client("Orders");
    orders.create().await?;
    let customer = orders.partition_key_client("contoso");
    single_writes(&orders, &customer).await?;
    transactions(&orders, &customer).await
}
