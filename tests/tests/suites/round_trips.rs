//! What a program waits for: the requests and the round trips of each pattern, where every request takes 10
//! milliseconds of virtual time. The tables of the README show these numbers.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::ValueRef;
use table_core::prelude::*;
use table_core::queue::WorkQueue as _;
use table_core::store::{Error, Result, TableStore};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Shape};
use table_patterns::log_tail::LogTail;
use table_patterns::queue::TableQueue;
use table_patterns::relationship::{JoinCache, JoinOptions};
use table_patterns::series::{DataSeries, Hours};
use table_patterns::spread::SpreadTable;
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
        Self { store: Arc::new(store), meter }
    }

    /// The requests and the round trips of work.
    async fn cost<T>(&self, work: impl Future<Output = Result<T>>) -> Result<[u64; 2]> {
        let (done, counts) = self.meter.measure(work).await;
        done.map(|_| [counts.total(), counts.round_trips()])
    }
}

fn employee(id: u32) -> Employee {
    Employee { department: "Sales".to_owned(), id, age: 40 }
}

#[tokio::test(start_paused = true)]
async fn of_tables() -> Result<()> {
    let distance = Distance::new();
    let employees = Table::<Employee>::new(distance.store.clone(), "Employees")?;
    employees.create_if_missing().await?;
    let mut group = employees.group(Employee::partition("Sales")?);
    for id in 1..20 {
        group.insert(&employee(id))?;
    }
    let keys =
        |all: std::ops::Range<u32>| all.map(|id| Employee::key("Sales", id)).collect::<Result<Vec<_>>>();
    let key = Employee::key("Sales", 1)?;
    employees.insert(&employee(0)).await?;
    let older = Employee::patch().age(41);
    let costs = [
        distance.cost(group.commit()).await?,
        distance.cost(employees.get(key.clone())).await?,
        distance.cost(employees.get_many(keys(0..16)?)).await?,
        distance.cost(employees.query().partition(Employee::partition("Sales")?).all()).await?,
        distance
            .cost(employees.update(key.clone(), |employee| {
                employee.age += 1;
                Ok(())
            }))
            .await?,
        distance.cost(employees.merge(key, &older, IfMatch::Any)).await?,
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
    let costs =
        [distance.cost(log.append(&Claim { amount: 2 })).await?, distance.cost(log.latest(10)).await?];
    assert_eq!(costs, [[1, 1], [1, 1]], "a log tail");

    let wide = WideEntities::new(distance.store.clone(), TableName::new("Wide")?);
    wide.create_if_missing().await?;
    let year =
        (0..365).fold(Entity::new("Sales", "2013")?, |year, day| year.with(&format!("D{day:03}"), day));
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
        events.insert(&Event { day: "2013-01-01".to_owned(), number }).await?;
    }
    let event = Event { day: "2013-01-01".to_owned(), number: 100 };
    let day = events.query().partition(Event::partition("2013-01-01")?);
    let costs = [
        distance.cost(events.insert(&event)).await?,
        distance.cost(events.get(Event::key("2013-01-01", 7u32)?)).await?,
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
    assert_eq!([sent, received, renewed], [[1, 1], [2, 2], [2, 2]], "a queue in a table");
    Ok(())
}

/// Rows that hold the entries of several entities: read, then written. With what follows the answer.
#[tokio::test(start_paused = true)]
async fn of_lists_summaries_and_copies() -> Result<()> {
    let copied = |e: &Entity| match e.key().row() {
        "department" => Ok(None),
        _ => Key::new(e.key().partition(), "department").map(Some),
    };
    let shapes = [Shape::LIST, Shape::summary(["Salary"]), Shape::copy("Best", vec!["Salary".to_owned()])];
    for (shape, placement, insert, known_change) in [
        (&shapes[0], Placement::SamePartition, [2, 2], [3, 2]),
        (&shapes[0], Placement::OtherPartition, [5, 5], [7, 5]),
        (&shapes[1], Placement::SamePartition, [2, 2], [3, 2]),
        (&shapes[2], Placement::SamePartition, [2, 2], [2, 2]),
    ] {
        let distance = Distance::new();
        let table = TableName::new("Employees")?;
        distance.store.create_table(&table).await?;
        let (here, copies) = (placement == Placement::SamePartition, matches!(shape, Shape::Copy { .. }));
        let index = Index::new("office", placement.clone(), "1", move |e| match e.get("Office") {
            Some(_) if copies => copied(e),
            Some(ValueRef::String(office)) if here => Key::new("Sales", format!("office_{office}")).map(Some),
            Some(ValueRef::String(office)) => Key::new(format!("office_{office}"), "all").map(Some),
            _ => Ok(None),
        });
        let (store, indexes) = (distance.store.clone(), vec![index.with_shape(shape.clone())]);
        let employees = IndexedEntities::open(store, table, indexes, IndexOptions::default()).await?;
        let employee = |id: u32, office: &str| {
            Ok::<_, Error>(
                Entity::new("Sales", format!("{id}"))?.with("Office", office).with("Salary", 1000_i64),
            )
        };
        if copies {
            employees.insert(Entity::new("Sales", "department")?.with("Floor", 1)).await?;
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
