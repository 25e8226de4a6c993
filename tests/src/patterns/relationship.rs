//! Relationships between entities, and joins on the client.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::store::{OperationKind, TableStore};
use table_core::typed::{EntityResolver, PropertyGroup, TableEntity};
use table_patterns::relationship::{JoinCache, JoinOptions, Link, Relation};
use table_patterns::{Database, Table};

use crate::{Harness, TestTable};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Department",
    partition_key = "departments",
    row_key = "d_{name}",
    rename_all = "PascalCase"
)]
struct Department {
    name: String,
    budget: i64,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    photo: Option<Link<Photo>>,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Photo", rename_all = "PascalCase")]
struct Photo {
    #[partition_key]
    album: String,
    #[row_key(format = "photo_{:06}")]
    number: u32,
}

fn department(name: &str) -> Department {
    Department {
        name: name.to_owned(),
        budget: 7,
    }
}

fn employee(department: &str, id: u32) -> Employee {
    Employee {
        department: department.to_owned(),
        id,
        photo: None,
    }
}

fn open<T: TableEntity>(table: &TestTable, store: Arc<dyn TableStore>) -> Table<T> {
    Database::new(store)
        .table(table.name().clone())
        .expect("a table")
}

fn metered(table: &TestTable) -> (Arc<dyn TableStore>, RequestMeter) {
    let meter = RequestMeter::new();
    (
        Arc::new(Metered::new(table.store().clone(), meter.clone())),
        meter,
    )
}

/// The employees of a department are in a partition of their own, by convention. A one-to-one relationship also
/// follows a convention.
pub(crate) async fn related_entities_are_found_by_conventions(harness: &Harness) {
    let table = harness.table().await;
    let (store, meter) = metered(&table);
    let employees = open::<Employee>(&table, store.clone());
    for (name, id) in [("Sales", 1), ("Sales", 2), ("Marketing", 3)] {
        employees
            .insert(&employee(name, id))
            .await
            .expect("a new employee");
    }
    open::<Photo>(&table, store.clone())
        .insert(&Photo {
            album: "Sales".to_owned(),
            number: 2,
        })
        .await
        .expect("a new photo");
    let staff = Relation::many(employees, |department: &Department| {
        Ok((
            Employee::partition(&department.name)?,
            Some(Employee::row_prefix().into()),
        ))
    });
    let query = staff.of(&department("Sales")).expect("a query");
    let (sales, cost) = meter.measure(query.all()).await;
    assert_eq!(
        sales.expect("employees"),
        vec![employee("Sales", 1), employee("Sales", 2)]
    );
    assert_eq!(cost.total(), 1);

    let photo = Relation::one(open::<Photo>(&table, store), |employee: &Employee| {
        Photo::key(&employee.department, employee.id)
    });
    let (found, cost) = meter.measure(photo.of(&employee("Sales", 2))).await;
    assert_eq!(found.expect("an answer").map(|photo| photo.number), Some(2));
    assert_eq!(cost.total(), 1);
    let all = [
        employee("Sales", 1),
        employee("Sales", 2),
        employee("Sales", 2),
    ];
    let (found, cost) = meter.measure(photo.of_all(&all)).await;
    let numbers: Vec<_> = found
        .expect("answers")
        .into_iter()
        .map(|p| p.map(|photo| photo.number))
        .collect();
    assert_eq!(numbers, vec![None, Some(2), Some(2)]);
    assert_eq!(cost.total(), 2);
}

/// A link is stored, read back and followed. A link can lead to a missing entity.
pub(crate) async fn links_are_stored_and_followed(harness: &Harness) {
    let table = harness.table().await;
    let (store, meter) = metered(&table);
    let (employees, photos) = (
        open::<Employee>(&table, store.clone()),
        open::<Photo>(&table, store),
    );
    let photo = Photo {
        album: "staff 'n' more %2F".to_owned(),
        number: 9,
    };
    photos.insert(&photo).await.expect("a new photo");
    let ken = Employee {
        photo: Some(Link::to(&photo).expect("a legal key")),
        ..employee("Sales", 1)
    };
    employees.insert(&ken).await.expect("a new employee");
    let read = employees
        .get_existing(Employee::key("Sales", 1).expect("a legal key"))
        .await
        .expect("Ken");
    assert_eq!(read, ken);
    let link = read.photo.expect("Ken has one");
    let (found, cost) = meter.measure(link.follow(&photos)).await;
    assert_eq!(found.expect("an answer"), Some(photo.clone()));
    assert_eq!(cost.total(), 1);
    let nowhere = Link::from(Photo::key("staff", 1).expect("a legal key"));
    let all = Link::follow_all([&link, &nowhere, &link], &photos)
        .await
        .expect("answers");
    assert_eq!(all, [Some(photo.clone()), None, Some(photo)]);
}

fn options(time_to_live: Duration, remember_missing: bool) -> JoinOptions {
    let options = JoinOptions::default().with_time_to_live(time_to_live);
    if remember_missing {
        options.remember_missing()
    } else {
        options
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// A join reads each distinct key once, and no key that is in its cache.
pub(crate) async fn a_join_reads_each_key_once(harness: &Harness) {
    let table = harness.table().await;
    let (store, meter) = metered(&table);
    let departments = open::<Department>(&table, store);
    departments
        .insert(&department("Sales"))
        .await
        .expect("a new department");
    let cache = JoinCache::new(departments.clone(), options(HOUR, false));
    let staff: Vec<_> = [("Sales", 1), ("Sales", 2), ("Gone", 3), ("Gone", 4)]
        .map(|(d, id)| employee(d, id))
        .into();
    let key = |employee: &Employee| Department::key(&employee.department);
    let (joined, cost) = meter.measure(cache.join(staff.clone(), key)).await;
    let names: Vec<_> = joined
        .expect("a join")
        .into_iter()
        .map(|(_, d)| d.map(|d| d.name.clone()))
        .collect();
    let sales = Some("Sales".to_owned());
    assert_eq!(names, vec![sales.clone(), sales, None, None]);
    assert_eq!(cost.total(), 2);
    let (_, cost) = meter.measure(cache.join(staff.clone(), key)).await;
    assert_eq!(cost.total(), 1, "a missing entity is read again");

    let remembering = JoinCache::new(departments.clone(), options(HOUR, true));
    assert_eq!(
        meter
            .measure(remembering.join(staff.clone(), key))
            .await
            .1
            .total(),
        2
    );
    assert_eq!(
        meter
            .measure(remembering.join(staff.clone(), key))
            .await
            .1
            .total(),
        0
    );

    let forgetful = JoinCache::new(departments.clone(), options(Duration::ZERO, true));
    assert_eq!(
        meter
            .measure(forgetful.join(staff.clone(), key))
            .await
            .1
            .total(),
        2
    );
    assert_eq!(meter.measure(forgetful.join(staff, key)).await.1.total(), 2);

    let loaded = JoinCache::new(departments.clone(), options(HOUR, false));
    let all = departments
        .query()
        .partition(Department::partition().expect("a legal key"));
    assert_eq!(meter.measure(loaded.load(&all)).await.1.total(), 1);
    let sales = Department::key("Sales").expect("a legal key");
    let (found, cost) = meter.measure(loaded.get(&sales)).await;
    assert_eq!(found.expect("an answer").map(|d| d.budget), Some(7));
    assert_eq!(cost.total(), 0);
    loaded.forget(&sales);
    assert_eq!(meter.measure(loaded.get(&sales)).await.1.total(), 1);
}

/// Concurrent reads of one key send one request. All of them get its failure, and the next read sends a request
/// again.
pub(crate) async fn concurrent_reads_of_one_key_send_one_request(harness: &Harness) {
    let table = harness.table().await;
    open::<Department>(&table, table.store().clone())
        .insert(&department("Sales"))
        .await
        .expect("a new department");
    let faults = FaultInjector::new(0);
    faults.add(
        FaultRule::new(Fault::FailBefore)
            .on(OperationKind::Get)
            .nth(1),
    );
    faults
        .add(FaultRule::new(Fault::DelayAnswer(Duration::from_millis(200))).on(OperationKind::Get));
    let (meter, faulty) = (
        RequestMeter::new(),
        Faulty::new(table.store().clone(), faults),
    );
    let store = Arc::new(Metered::new(faulty, meter.clone()));
    let cache = JoinCache::new(open::<Department>(&table, store), options(HOUR, false));
    let sales = Department::key("Sales").expect("a legal key");
    let failed = cache
        .get(&sales)
        .await
        .expect_err("the first request fails");
    assert!(failed.is_transient(), "{failed}");
    let found = join_all((0..20).map(|_| cache.get(&sales))).await;
    assert!(
        found
            .iter()
            .all(|found| matches!(found, Ok(Some(d)) if d.name == "Sales"))
    );
    assert_eq!(meter.total(), 2);
}

/// A writer that changes an entity and clears it from the cache reads the change, although concurrent reads of
/// the old state are in flight. The other readers see the change with their next read.
pub(crate) async fn a_cleared_key_is_read_again(harness: &Harness) {
    let table = harness.table().await;
    let departments = open::<Department>(&table, table.store().clone());
    departments
        .insert(&department("Sales"))
        .await
        .expect("a new department");
    let faults = FaultInjector::new(0);
    faults.add(
        FaultRule::new(Fault::DelayAnswer(Duration::from_millis(800)))
            .on(OperationKind::Get)
            .nth(1),
    );
    let store = Arc::new(Faulty::new(table.store().clone(), faults));
    let cache = JoinCache::new(open::<Department>(&table, store), options(HOUR, false));
    let sales = Department::key("Sales").expect("a legal key");
    let changed = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let raised = Department {
            budget: 8,
            ..department("Sales")
        };
        departments.upsert(&raised).await.expect("an upsert");
        cache.forget(&sales);
        cache.get(&sales).await
    };
    let (_, after) = futures_util::future::join(cache.get(&sales), changed).await;
    assert_eq!(after.expect("an answer").map(|d| d.budget), Some(8));
    assert_eq!(
        cache
            .get(&sales)
            .await
            .expect("an answer")
            .map(|d| d.budget),
        Some(8)
    );
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Person {
    name: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Customer",
    partition_key = "people",
    row_key = "c_{number:06}",
    rename_all = "PascalCase"
)]
struct Customer {
    number: u32,
    #[entity(flatten)]
    person: Person,
    credit: i64,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Manager",
    partition_key = "people",
    row_key = "m_{number:06}",
    rename_all = "PascalCase"
)]
struct Manager {
    number: u32,
    #[entity(flatten)]
    person: Person,
    department: String,
}

#[derive(Clone, Debug, PartialEq, EntityResolver)]
enum AnyPerson {
    Customer(Customer),
    Manager(Manager),
}

impl AnyPerson {
    fn person(&self) -> &Person {
        match self {
            Self::Customer(customer) => &customer.person,
            Self::Manager(manager) => &manager.person,
        }
    }
}

/// Types with a common base are read as one enum, whose base is one struct.
pub(crate) async fn types_with_a_common_base_are_one_enum(harness: &Harness) {
    let table = harness.table().await;
    let people = Database::new(table.store().clone())
        .view::<AnyPerson>(table.name().clone())
        .expect("a table");
    let person = |name: &str| Person {
        name: name.to_owned(),
    };
    let customer = Customer {
        number: 1,
        person: person("Kim"),
        credit: 100,
    };
    let manager = Manager {
        number: 1,
        person: person("Ken"),
        department: "Sales".to_owned(),
    };
    people
        .view::<Customer>()
        .expect("a view")
        .insert(&customer)
        .await
        .expect("a new customer");
    people
        .view::<Manager>()
        .expect("a view")
        .insert(&manager)
        .await
        .expect("a new manager");
    let all = people
        .query()
        .partition(Customer::partition().expect("a legal key").cast())
        .all()
        .await;
    let all = all.expect("two people");
    assert_eq!(
        all,
        [AnyPerson::Customer(customer), AnyPerson::Manager(manager)]
    );
    assert_eq!(
        all.iter()
            .map(|p| p.person().name.as_str())
            .collect::<Vec<_>>(),
        ["Kim", "Ken"]
    );
}
