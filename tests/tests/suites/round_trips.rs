//! What a program waits for: the requests and the round trips of each pattern, where every request takes 10
//! milliseconds of virtual time. The tables of the README show these numbers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Properties, Ticks, ValueRef};
use table_core::prelude::*;
use table_core::queue::WorkQueue as _;
use table_core::store::{Error, Result, TableStore};
use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, Keys};
use table_patterns::Database;
use table_patterns::bulk::{BulkOptions, BulkTable as _, BulkWriter, delete_partition, operations};
use table_patterns::eventual::{Coordinator, EventualTransaction, Place, Resources};
use table_patterns::heterogeneous::modify;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Shape};
use table_patterns::journal::Acknowledge;
use table_patterns::log_blobs::{LogOptions, LogWriter, read_logs};
use table_patterns::log_tail::LogTail;
use table_patterns::queue::TableQueue;
use table_patterns::relationship::{JoinCache, JoinOptions};
use table_patterns::series::{DataSeries, Hours};
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideEntities;

#[derive(Clone, Debug, PartialEq, TableEntity)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "{:06}")]
    id: u32,
    age: i32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
struct Event {
    #[partition_key(spread = 16)]
    day: String,
    #[row_key(format = "{:06}")]
    number: u32,
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
struct Claim {
    amount: i32,
}

/// A store whose requests take time.
struct Distance {
    store: Arc<dyn TableStore>,
    meter: RequestMeter,
}

impl Distance {
    fn new() -> Self {
        let (faults, meter) = (FaultInjector::new(1), RequestMeter::new());
        faults.add(FaultRule::new(Fault::Delay(Duration::from_millis(10))));
        let store = Metered::new(Faulty::new(MemoryStore::new(), faults), meter.clone());
        Self {
            store: Arc::new(store),
            meter,
        }
    }

    /// The requests and the round trips of work.
    async fn cost<T>(&self, work: impl Future<Output = Result<T>>) -> Result<[u64; 2]> {
        let (done, counts) = self.meter.measure(work).await;
        done.map(|_| [counts.total(), counts.round_trips()])
    }
}

fn employee(id: u32) -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id,
        age: 40,
    }
}

#[tokio::test(start_paused = true)]
async fn of_tables() -> Result<()> {
    let distance = Distance::new();
    let employees = Database::new(distance.store.clone()).table::<Employee>("Employees")?;
    employees.declare().await?;
    let mut group = employees.group(Employee::partition("Sales")?);
    for id in 1..20 {
        group.insert(&employee(id))?;
    }
    let keys = |all: std::ops::Range<u32>| {
        all.map(|id| Employee::key("Sales", id))
            .collect::<Result<Vec<_>>>()
    };
    let key = Employee::key("Sales", 1)?;
    employees.insert(&employee(0)).await?;
    let older = Employee::patch().age(41);
    let costs = [
        distance.cost(group.commit()).await?,
        distance.cost(employees.get(key.clone())).await?,
        distance.cost(employees.get_many(keys(0..16)?)).await?,
        distance
            .cost(
                employees
                    .query()
                    .partition(Employee::partition("Sales")?)
                    .all(),
            )
            .await?,
        distance
            .cost(employees.update(key.clone(), |employee| {
                employee.age += 1;
                Ok(())
            }))
            .await?,
        distance
            .cost(employees.merge(key, &older, IfMatch::Any))
            .await?,
    ];
    assert_eq!(costs, [[1, 1], [1, 1], [16, 1], [1, 1], [2, 2], [1, 1]]);
    let departments = JoinCache::new(employees.clone(), JoinOptions::default());
    let all: Vec<u32> = (0..16).collect();
    let join = departments.join(all, |id: &u32| Employee::key("Sales", *id));
    assert_eq!(distance.cost(join).await?, [16, 1]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_layouts() -> Result<()> {
    let distance = Distance::new();
    let series = DataSeries::<Hours, i64>::new(distance.store.clone(), "Series", Hours)?;
    series.create_if_missing().await?;
    let today = Key::new("Sales", "2013-01-15")?;
    series.set(&today, 8, &1).await?;
    let costs = [
        distance.cost(series.set(&today, 9, &12)).await?,
        distance.cost(series.get(&today)).await?,
        distance.cost(series.add(&today, 9, 1)).await?,
    ];
    assert_eq!(costs, [[1, 1], [1, 1], [2, 2]], "a series");

    let log = LogTail::<Claim>::new(distance.store.clone(), "Claims", PartitionKey::new("ken")?)?;
    log.create_if_missing().await?;
    log.append(&Claim { amount: 1 }).await?;
    let costs = [
        distance.cost(log.append(&Claim { amount: 2 })).await?,
        distance.cost(log.latest(10)).await?,
    ];
    assert_eq!(costs, [[1, 1], [1, 1]], "a log tail");

    let wide = WideEntities::new(distance.store.clone(), TableName::new("Wide")?);
    wide.create_if_missing().await?;
    let year = (0..365).fold(Entity::new("Sales", "2013")?, |year, day| {
        year.with(&format!("D{day:03}"), day)
    });
    wide.insert(&Entity::new("Sales", "2012")?).await?;
    let inserted = distance.cost(wide.insert(&year)).await?;
    let read = wide.get(year.key()).await?.expect("it is stored");
    let costs = [
        inserted,
        distance.cost(wide.get(year.key())).await?,
        distance.cost(wide.set(&read, "D100", 42)).await?,
    ];
    assert_eq!(costs, [[1, 1], [1, 1], [1, 1]], "a wide entity");

    let events = SpreadTable::<Event>::new(distance.store.clone(), "Events")?;
    events.create_if_missing().await?;
    for number in 0..100 {
        events
            .insert(&Event {
                day: "2013-01-01".to_owned(),
                number,
            })
            .await?;
    }
    let event = Event {
        day: "2013-01-01".to_owned(),
        number: 100,
    };
    let day = events.query().partition(Event::partition("2013-01-01")?);
    let costs = [
        distance.cost(events.insert(&event)).await?,
        distance
            .cost(events.get(Event::key("2013-01-01", 7u32)?))
            .await?,
        distance.cost(day.all()).await?,
    ];
    assert_eq!(costs, [[1, 1], [1, 1], [16, 1]], "spread keys");

    let queue = TableQueue::open(distance.store.clone(), "Work", "photos").await?;
    queue.send("one", Duration::ZERO).await?;
    let hour = Duration::from_secs(3600);
    let sent = distance.cost(queue.send("two", Duration::ZERO)).await?;
    let received = distance.cost(queue.receive(1, hour)).await?;
    let message = queue.receive(1, hour).await?.remove(0);
    let receipt = message.receipt.expect("it was received");
    let renewed = distance.cost(queue.renew(&receipt, hour)).await?;
    assert_eq!(
        [sent, received, renewed],
        [[1, 1], [2, 2], [2, 2]],
        "a queue in a table"
    );
    Ok(())
}

/// Rows that hold the entries of several entities: read, then written. With what follows the answer.
#[tokio::test(start_paused = true)]
async fn of_lists_summaries_and_copies() -> Result<()> {
    let copied = |e: &Entity| match e.key().row() {
        "department" => Ok(None),
        _ => Key::new(e.key().partition(), "department").map(Some),
    };
    let shapes = [
        Shape::LIST,
        Shape::summary(["Salary"]),
        Shape::copy("Best", vec!["Salary".to_owned()]),
    ];
    for (shape, placement, insert, known_change) in [
        (&shapes[0], Placement::SamePartition, [2, 2], [3, 2]),
        (&shapes[0], Placement::OtherPartition, [5, 5], [7, 5]),
        (&shapes[1], Placement::SamePartition, [2, 2], [3, 2]),
        (&shapes[2], Placement::SamePartition, [2, 2], [2, 2]),
    ] {
        let distance = Distance::new();
        let table = TableName::new("Employees")?;
        distance.store.create_table(&table).await?;
        let (here, copies) = (
            placement == Placement::SamePartition,
            matches!(shape, Shape::Copy { .. }),
        );
        let index = Index::new("office", placement.clone(), "1", move |e| {
            match e.get("Office") {
                Some(_) if copies => copied(e),
                Some(ValueRef::String(office)) if here => {
                    Key::new("Sales", format!("office_{office}")).map(Some)
                }
                Some(ValueRef::String(office)) => {
                    Key::new(format!("office_{office}"), "all").map(Some)
                }
                _ => Ok(None),
            }
        });
        let (store, indexes) = (
            distance.store.clone(),
            vec![index.with_shape(shape.clone())],
        );
        let employees =
            IndexedEntities::open(store, table, indexes, IndexOptions::default()).await?;
        let employee = |id: u32, office: &str| {
            Ok::<_, Error>(
                Entity::new("Sales", format!("{id}"))?
                    .with("Office", office)
                    .with("Salary", 1000_i64),
            )
        };
        if copies {
            employees
                .insert(Entity::new("Sales", "department")?.with("Floor", 1))
                .await?;
        } else {
            employees.insert(employee(1, "oslo")?).await?;
            employees.insert(employee(2, "rome")?).await?;
        }
        employees.flush().await;
        let inserted = async {
            let done = employees.insert(employee(3, "oslo")?).await?;
            employees.flush().await;
            Ok(done)
        };
        let inserted = distance.cost(inserted).await?;
        let old = employees.get_existing(&Key::new("Sales", "3")?).await?;
        let new = employee(3, "rome")?.with("Salary", 2000_i64);
        let changed = async {
            let done = employees.replace(&old, new).await?;
            employees.flush().await;
            Ok(done)
        };
        let changed = distance.cost(changed).await?;
        assert_eq!(inserted, insert, "{shape}, {placement:?}");
        assert_eq!(changed, known_change, "{shape}, {placement:?}");
    }
    Ok(())
}

/// A move of an entity with its entries: within the partition, to another partition with and without entries in other partitions, and
/// to another table. With what follows the answer.
#[tokio::test(start_paused = true)]
async fn of_moves() -> Result<()> {
    for (placement, cost) in [
        (Placement::SamePartition, [[3, 2], [4, 4], [4, 4]]),
        (Placement::OtherPartition, [[8, 6], [10, 9], [11, 10]]),
    ] {
        let distance = Distance::new();
        let open = async |name: &str| {
            let table = TableName::new(name)?;
            distance.store.create_table_if_missing(&table).await?;
            let here = placement == Placement::SamePartition;
            let index = Index::new("office", placement.clone(), "1", move |e| {
                match e.get("Office") {
                    Some(ValueRef::String(office)) if here => Key::new(
                        e.key().partition(),
                        format!("office_{office}_{}", e.key().row()),
                    )
                    .map(Some),
                    Some(ValueRef::String(office)) => Key::new(
                        format!("office_{office}"),
                        format!("{}_{}", e.key().partition(), e.key().row()),
                    )
                    .map(Some),
                    _ => Ok(None),
                }
            });
            IndexedEntities::open(
                distance.store.clone(),
                table,
                vec![index],
                IndexOptions::default(),
            )
            .await
        };
        let (employees, archive) = (open("Employees").await?, open("Archive").await?);
        employees
            .insert(Entity::new("Sales", "1")?.with("Office", "oslo"))
            .await?;
        archive
            .insert(Entity::new("Sales", "1")?.with("Office", "oslo"))
            .await?;
        employees.flush().await;
        archive.flush().await;
        let moved = async |from: Key, target: &IndexedEntities, to: Key| {
            let done = async {
                employees.move_to(&from, target, &to).await?;
                employees.flush().await;
                target.flush().await;
                Ok(())
            };
            distance.cost(done).await
        };
        let key = |partition: &str, row: &str| Key::new(partition, row);
        let costs = [
            moved(key("Sales", "1")?, &employees, key("Sales", "2")?).await?,
            moved(key("Sales", "2")?, &employees, key("Travel", "2")?).await?,
            moved(key("Travel", "2")?, &archive, key("Travel", "2")?).await?,
        ];
        assert_eq!(
            costs, cost,
            "{placement:?}: the same partition, another one, another table"
        );
    }
    Ok(())
}

const STEP: Duration = Duration::from_millis(10);

/// A blob store whose requests take as long as those of the table store.
fn distant_blobs() -> Arc<dyn ObjectStore> {
    let config = ThrottleConfig {
        wait_get_per_call: STEP,
        wait_put_per_call: STEP,
        wait_delete_per_call: STEP,
        wait_list_per_call: STEP,
        ..ThrottleConfig::default()
    };
    Arc::new(ThrottledStore::new(InMemory::new(), config))
}

/// The round trips to both stores: the virtual time of work.
async fn round_trips<T>(work: impl Future<Output = Result<T>>) -> Result<u128> {
    let start = tokio::time::Instant::now();
    work.await?;
    Ok(start.elapsed().as_millis() / STEP.as_millis())
}

#[tokio::test(start_paused = true)]
async fn of_sets() -> Result<()> {
    let distance = Distance::new();
    let employees = Database::new(distance.store.clone()).table::<Employee>("Employees")?;
    employees.declare().await?;
    let all = || (0..1600).map(employee);
    let writer = BulkWriter::new(distance.store.clone());
    let inserts = operations(employees.name(), stream::iter(all()), Operation::Insert);
    let partition = Employee::partition("Sales")?;
    let sales = employees.query().partition(partition.clone());
    let older = |employee: &mut Employee| {
        employee.age += 1;
        Ok(())
    };
    assert_eq!(
        distance.cost(writer.write(inserts)).await?,
        [16, 1],
        "16 groups"
    );
    assert_eq!(
        distance.cost(sales.update(older)).await?,
        [18, 3],
        "2 pages of 1,000, 16 groups: the second page is read while the groups of the first are written"
    );
    let deletion = delete_partition(
        distance.store.clone(),
        employees.name(),
        partition.partition_key(),
        BulkOptions::default(),
    );
    assert_eq!(
        distance.cost(deletion).await?,
        [18, 3],
        "2 pages of 1,000, 16 groups: the second page is read while the groups of the first are written"
    );
    let insert_all = async { employees.bulk().insert_all(stream::iter(all())).await };
    assert_eq!(distance.cost(insert_all).await?, [16, 1], "16 groups");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_eventual_transactions() -> Result<()> {
    let distance = Distance::new();
    let table = TableName::new("Employees")?;
    distance.store.create_table(&table).await?;
    let queue = Arc::new(TableQueue::open(distance.store.clone(), "Work", "jobs").await?);
    let resources = Resources::new().with_store("office", distance.store.clone());
    let process =
        Coordinator::open(distance.store.clone(), "Transactions", queue, resources).await?;
    let upsert = |steps: EventualTransaction, row: &str| {
        steps.upsert(
            "office",
            table.clone(),
            Entity::new("Sales", row).expect("a legal key"),
        )
    };
    let three = upsert(upsert(upsert(EventualTransaction::new(), "1"), "2"), "3");
    let together =
        EventualTransaction::new().together(|steps| upsert(upsert(upsert(steps, "1"), "2"), "3"));
    let place = Place::new("office", table.clone(), Key::new("Sales", "3")?);
    let away = Place::new("office", table.clone(), Key::new("Sales", "4")?);
    let moved = EventualTransaction::new().move_entity(place, away);
    let applied = Acknowledge::Applied;
    let costs = [
        distance.cost(process.submit(&three, applied)).await?,
        distance.cost(process.submit(&together, applied)).await?,
        distance.cost(process.submit(&moved, applied)).await?,
    ];
    assert_eq!(
        costs,
        [[9, 9], [7, 5], [8, 8]],
        "message, claim, steps, records, message"
    );
    Ok(())
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
struct Photo {
    #[partition_key]
    album: String,
    #[row_key(format = "{:06}")]
    number: u32,
    #[large(over = 10)]
    small: Vec<u8>,
    #[large(over = 10)]
    full: Vec<u8>,
}

#[tokio::test(start_paused = true)]
async fn of_large_entities() -> Result<()> {
    let distance = Distance::new();
    let db = Database::new(distance.store.clone()).with_blobs(distant_blobs());
    let photos = db.table::<Photo>("Photos")?;
    photos.declare().await?;
    let photo = |number, byte| Photo {
        album: "2013".to_owned(),
        number,
        small: vec![byte; 100],
        full: vec![byte; 5000],
    };
    photos.insert(&photo(1, 1)).await?;
    let costs = [
        round_trips(photos.insert(&photo(2, 2))).await?,
        round_trips(photos.get(Photo::key("2013", 2u32)?)).await?,
        round_trips(photos.replace_if(&photo(2, 3), IfMatch::Any)).await?,
        round_trips(photos.delete(Photo::key("2013", 2u32)?, IfMatch::Any)).await?,
    ];
    assert_eq!(
        costs,
        [2, 2, 4, 3],
        "insert, get, replace, delete of two blobs"
    );
    Ok(())
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Recorded", feed)]
struct Recorded {
    #[partition_key]
    department: String,
    #[row_key]
    name: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
struct Login {
    #[partition_key]
    user: String,
    #[row_key]
    at: Reverse<Ticks>,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Secret")]
struct Secret {
    #[partition_key]
    owner: String,
    #[row_key]
    name: String,
    #[encrypt]
    text: String,
}

#[tokio::test(start_paused = true)]
async fn of_slices_types_changes_and_encryption() -> Result<()> {
    let distance = Distance::new();
    let changes = Database::new(distance.store.clone()).table::<Recorded>("Changes")?;
    let recorded = |name: &str| Recorded {
        department: "Sales".to_owned(),
        name: name.to_owned(),
    };
    changes.insert(&recorded("ann")).await?;
    let costs = [
        distance.cost(changes.insert(&recorded("bob"))).await?,
        distance
            .cost(changes.delete(Recorded::key("Sales", "ann")?, IfMatch::Any))
            .await?,
    ];
    assert_eq!(costs, [[1, 1], [2, 2]], "a change feed");

    let start: Ticks = "2013-01-01T08:00:00Z".parse()?;
    let logins = TimeSlices::new(
        distance.store.clone(),
        "Logins",
        Every::Day,
        |login: &Login| login.at.0,
    )?;
    let login = |hours| Login {
        user: "ken".to_owned(),
        at: Reverse(start + chrono::TimeDelta::hours(hours)),
    };
    for day in 0..10 {
        logins.insert(&login(24 * day)).await?;
    }
    let costs = [
        distance.cost(logins.insert(&login(1))).await?,
        distance
            .cost(logins.drop_before(start + chrono::TimeDelta::days(5)))
            .await?,
    ];
    assert_eq!(
        costs,
        [[1, 1], [6, 2]],
        "slices: an insert, the drop of five"
    );

    let employees = Database::new(distance.store.clone()).table::<Employee>("Company")?;
    employees.declare().await?;
    employees.insert(&employee(1)).await?;
    let company = employees.view::<Entity>()?;
    let all = company.query().partition(PartitionKey::new("Sales")?);
    let older = |_: &Entity| Ok([("age", 41)].into_iter().collect::<Properties>());
    let costs = [
        distance.cost(all.all()).await?,
        distance
            .cost(modify(
                &employees,
                Employee::key("Sales", 1u32)?.key(),
                older,
            ))
            .await?,
    ];
    assert_eq!(
        costs,
        [[1, 1], [2, 2]],
        "several types: a page, a change without the type"
    );

    let key = AesKeyWrap::new("kek", &KeyBytes::random(32)?)?;
    let store = EncryptedStore::new(distance.store.clone(), Keys::new(Arc::new(key)))?;
    let secrets = Database::new(store).table::<Secret>("Secrets")?;
    secrets.declare().await?;
    let secret = Secret {
        owner: "ken".to_owned(),
        name: "pin".to_owned(),
        text: "1234".to_owned(),
    };
    let key = Secret::key("ken", "pin")?;
    let costs = [
        distance.cost(secrets.insert(&secret)).await?,
        distance.cost(secrets.get(key.clone())).await?,
        distance
            .cost(secrets.merge(key, &Secret::patch().text("5678"), IfMatch::Any))
            .await?,
    ];
    assert_eq!(
        costs,
        [[1, 1], [1, 1], [3, 3]],
        "encrypted properties of a type with a name: insert, get, merge"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_logs_in_blobs() -> Result<()> {
    let (blobs, start) = (distant_blobs(), Ticks::now());
    let log = LogWriter::new(blobs.clone(), "web", LogOptions::default())?;
    log.append(&1).await?;
    let first = round_trips(log.flush()).await?;
    log.append(&2).await?;
    let next = round_trips(log.flush()).await?;
    let read =
        round_trips(read_logs(blobs, "web", start..Ticks::MAX).try_collect::<Vec<_>>()).await?;
    assert_eq!(
        [first, next, read],
        [2, 1, 3],
        "the first buffer of an hour, the next one, reading them"
    );
    Ok(())
}
