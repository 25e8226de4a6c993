//! Stores with data, and the program.

use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_core::manifest::IndexState;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, TableName, Ticks};
use table_core::query::Query;
use table_core::store::{Operation, TableStore, TableStoreExt as _};
use table_embedded::EmbeddedStore;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
use table_server::{Account, Server};
use tempfile::TempDir;

/// The program, without the settings of the environment of the test.
pub(crate) fn tables() -> Command {
    let mut command = Command::cargo_bin("tables").expect("the program is built");
    for name in [
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURITE_CONNECTION_STRING",
        "AZURE_TOKEN_CREDENTIALS",
        "TABLES_KEYS",
    ] {
        command.env_remove(name);
    }
    // Nothing listens there: a request to a server of this machine fails if it uses a proxy.
    command
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("ALL_PROXY", "http://127.0.0.1:1");
    command
}

/// An entity with a property of each type.
pub(crate) fn of_every_type(partition: &str, row: &str) -> Entity {
    Entity::new(partition, row)
        .expect("legal keys")
        .with("Text", "a,\"b\"\nc")
        .with("Empty", "")
        .with("Flag", true)
        .with("Small", -7)
        .with("Big", 9_007_199_254_740_993_i64)
        .with("Real", 1.0)
        .with("Infinite", f64::NEG_INFINITY)
        .with(
            "Time",
            "2013-01-01T05:15:00.1234567Z"
                .parse::<Ticks>()
                .expect("a time"),
        )
        .with("Bytes", vec![0_u8, 255, 16])
        .with(
            "Id",
            "6b1a9a0e-64a0-4f5e-9d2c-5d9be6a7e2b1"
                .parse::<uuid::Uuid>()
                .expect("a Guid"),
        )
}

/// Writes entities into a table, which is created if it is missing.
pub(crate) async fn fill(
    store: &dyn TableStore,
    table: &str,
    entities: impl IntoIterator<Item = Entity>,
) {
    let table = TableName::new(table).expect("a legal name");
    store
        .create_table_if_missing(&table)
        .await
        .expect("the table is created");
    for entity in entities {
        store
            .write(&table, Operation::InsertOrReplace(entity))
            .await
            .expect("the entity is written");
    }
}

/// The three employees of most tests.
pub(crate) fn employees() -> [Entity; 3] {
    let employee = |partition, row, age: i32| {
        Entity::new(partition, row)
            .expect("legal keys")
            .with("Age", age)
    };
    [
        employee("Sales", "1", 41).with("Name", "Ken"),
        employee("Sales", "2", 29),
        employee("Legal", "1", 55),
    ]
}

/// An embedded store in a new directory, with the table `Employees`.
pub(crate) fn embedded(entities: impl IntoIterator<Item = Entity>) -> (TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    on_disk(directory.path(), async |store| {
        fill(&store, "Employees", entities).await;
    });
    let name = format!("embedded:{}", directory.path().display());
    (directory, name)
}

/// A memory store that this process serves as an account.
pub(crate) struct Served {
    /// The connection string.
    pub(crate) secret: String,
    _server: Server,
    _runtime: tokio::runtime::Runtime,
}

/// The key of the account, as the connection string has it.
pub(crate) const KEY: &str = "c2VjcmV0LWtleS1vZi10aGUtdGVzdA==";

/// Serves a memory store with the table `Employees`.
pub(crate) fn served(entities: impl IntoIterator<Item = Entity>) -> Served {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let account = Account::new("orders", KEY).expect("an account");
    let store = MemoryStore::new();
    let server = runtime.block_on(async {
        fill(&store, "Employees", entities).await;
        let server = Server::builder().account(account, store);
        server
            .listen("127.0.0.1:0".parse().expect("an address"))
            .start()
            .await
            .expect("the server starts")
    });
    let secret = server.connection_string("orders").expect("the account");
    Served {
        secret,
        _server: server,
        _runtime: runtime,
    }
}

/// Opens an embedded store for a moment.
pub(crate) fn on_disk<T>(directory: &Path, work: impl AsyncFnOnce(EmbeddedStore) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = EmbeddedStore::open(directory)
            .await
            .expect("the store opens");
        let result = work(store.clone()).await;
        store.close().await.expect("the store closes");
        result
    })
}

/// Makes an embedded store with the table `Employees`, its entities, and an index whose entries are in partitions of their own.
pub(crate) fn indexed(entities: impl IntoIterator<Item = Entity>) -> (TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    on_disk(directory.path(), async |store| {
        let table = TableName::new("Employees").expect("a legal name");
        store
            .create_table(&table)
            .await
            .expect("the table is created");
        let opened = IndexedEntities::open(
            store.into_shared(),
            table,
            vec![by_age()],
            IndexOptions::local(),
        );
        let employees = opened.await.expect("the table opens");
        for entity in entities {
            employees
                .insert(entity)
                .await
                .expect("the entity is written");
        }
    });
    let name = format!("embedded:{}", directory.path().display());
    (directory, name)
}

/// The index of [`indexed`].
pub(crate) fn by_age() -> Index {
    Index::keyed(
        "age",
        Placement::OtherPartition,
        "age_{Age}",
        "{PartitionKey}_{RowKey}",
    )
    .expect("an index")
}

/// The keys of all rows of the table `Employees` except system rows, as `PartitionKey/RowKey`.
pub(crate) fn keys(directory: &Path) -> Vec<String> {
    let table = TableName::new("Employees").expect("a legal name");
    let rows = on_disk(directory, async |store| {
        store
            .query_all(&table, &Query::new())
            .await
            .expect("the rows")
    });
    let keys = rows.iter().map(Entity::key).filter(|key| !key.is_system());
    keys.map(|key| format!("{}/{}", key.partition(), key.row()))
        .collect()
}

/// Removes the entry of one employee, and adds the entry of none.
pub(crate) async fn damage(store: &dyn TableStore) {
    let table = TableName::new("Employees").expect("a row");
    let entries = store.query_all(&table, &Query::new()).await.expect("a row");
    let entry = entries
        .into_iter()
        .find(|row| row.key().row() == "Sales_1")
        .expect("a row");
    let (partition, properties) = (
        entry.key().partition().to_owned(),
        entry.properties().clone(),
    );
    store
        .write(&table, Operation::Delete(entry.key().clone(), IfMatch::Any))
        .await
        .expect("a row");
    let dangling = Entity::from_parts(Key::new(partition, "Sales_9").expect("a row"), properties);
    store
        .write(&table, Operation::Insert(dangling))
        .await
        .expect("a row");
}

/// Begins a build of the index of [`by_age`], as a program that ends after other programs could see the index.
pub(crate) fn interrupt_build(directory: &Path) {
    let table = TableName::new("Employees").expect("a legal name");
    on_disk(directory, async |store| {
        let shared = store.into_shared();
        // As if a server had the store open: the build waits, and does not end in this process.
        shared
            .context()
            .local_writers()
            .expect("an embedded store")
            .serve();
        let opened =
            IndexedEntities::open(shared.clone(), table, vec![by_age()], IndexOptions::local())
                .await;
        let employees = opened.expect("the table opens");
        let mut build = Box::pin(employees.build("age").expect("the index").run());
        loop {
            let wait = tokio::time::timeout(Duration::from_millis(10), &mut build).await;
            assert!(wait.is_err(), "the build ended");
            let declared = employees.declared().await.expect("the manifest");
            if declared
                .iter()
                .any(|stored| stored.state != IndexState::Absent)
            {
                break;
            }
        }
    });
}

/// Writes an employee into the table of [`indexed`], as a program that ends after the commit of the entity and before its entry.
pub(crate) fn interrupt_write(directory: &Path) {
    interrupt_write_with(directory, IndexOptions::local());
}

/// As [`interrupt_write`], by a program with these options.
pub(crate) fn interrupt_write_with(directory: &Path, options: IndexOptions) {
    on_disk(directory, async |store| {
        let faults = FaultInjector::new(1);
        let (table, crashing) = (
            TableName::new("Employees").expect("a legal name"),
            Faulty::new(store, faults.clone()),
        );
        let opened = IndexedEntities::open(crashing.into_shared(), table, vec![by_age()], options);
        let employees_of_a_process = opened.await.expect("the table opens");
        faults.crash_at(2, CrashPoint::Before);
        let new = Entity::new("New", "1").expect("legal keys").with("Age", 30);
        let write = employees_of_a_process.insert(new);
        let _interrupted = tokio::time::timeout(Duration::from_secs(1), write).await;
        assert!(faults.is_crashed());
    });
}
