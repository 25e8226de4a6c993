//! Typed writes of indexed tables with faults: at each request the process crashes, or the request or its
//! answer is lost. After recovery every index agrees with the entities, and every acknowledgement is true.

use std::sync::Arc;
use std::time::Duration;

use crate::{open_table, open_table_with};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::Result;
use table_core::adapter::Faulty;
use table_core::model::{SYSTEM_PREFIX, Ticks};
use table_core::prelude::*;
use table_core::queue::WorkQueue as _;
use table_patterns::Table;
use table_patterns::clock::TokioClock;
use table_patterns::index::{Index, IndexOptions, Placement, ScrubMode, Shape};
use table_patterns::journal::{Change, Clearing, Recovery};
use table_patterns::queue::{QueueOptions, TableQueue};
use tokio::time::sleep;

use crate::Harness;
use crate::fault_runs::{FaultRun, run_with_faults};

/// A local index of the e-mail address, remote indexes of the city and the badge. No declared index holds the
/// age.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(email, row_key = "email_{email}", unique = "partition")]
#[index(city, partition_key = "city_{city}", row_key = "{department}_{id:06}")]
#[index(
    badge,
    partition_key = "badge_{badge:04}",
    row_key = "badge",
    unique = "table"
)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    email: String,
    city: String,
    badge: Option<u32>,
    age: i32,
}

/// Another type in the same partition, with its own indexes.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Project", rename_all = "PascalCase")]
#[index(lead, row_key = "lead_{lead:06}_{code}")]
#[index(
    code,
    partition_key = "code_{code}",
    row_key = "code",
    unique = "table"
)]
struct Project {
    #[partition_key]
    department: String,
    #[row_key(format = "project_{}")]
    code: String,
    lead: u32,
}

/// A third type without indexes.
#[derive(Debug, TableEntity)]
#[entity(type = "Department", rename_all = "PascalCase", row_key = "department")]
struct Department {
    #[partition_key]
    name: String,
    manager: String,
}

fn employee(id: u32, city: &str) -> Employee {
    let (department, email) = ("Sales".to_owned(), format!("{id}@x"));
    Employee {
        department,
        id,
        email,
        city: city.to_owned(),
        badge: Some(id),
        age: 40,
    }
}

fn key(id: u32) -> EntityKey<Employee> {
    Employee::key("Sales", id).expect("a legal key")
}

/// Indexes that the program knows but the type does not declare: they hold the age, and the manager of the
/// other type.
fn more() -> Vec<Index> {
    let age = Index::keyed(
        "age",
        Placement::OtherPartition,
        "age_{Age:03}",
        "{PartitionKey}_{RowKey}",
    );
    let ages =
        Index::keyed("ages", Placement::SamePartition, "", "ages_{City}").expect("a template");
    let manager = Index::keyed(
        "manager",
        Placement::OtherPartition,
        "manager_{Manager}",
        "{PartitionKey}",
    );
    vec![
        age.expect("a template"),
        ages.with_shape(Shape::summary(["Age"])),
        manager.expect("a template"),
    ]
}

/// All entries are in one table, all tickets in another.
struct Company {
    employees: Table<Employee>,
    projects: Table<Project>,
    queue: Arc<TableQueue>,
}

struct World {
    store: Arc<dyn TableStore>,
    table: TableName,
    tickets: TableName,
    clock: TokioClock,
    more: bool,
}

impl World {
    async fn new(harness: &Harness, more: bool) -> Self {
        let (store, table, tickets) = (
            harness.store().clone(),
            harness.unused_name(),
            harness.unused_name(),
        );
        let world = Self {
            store,
            table,
            tickets,
            clock: TokioClock::starting_at(Ticks::now()),
            more,
        };
        let founder = world.open(world.store.clone()).await;
        for employee in before() {
            founder
                .employees
                .insert(&employee)
                .await
                .expect("a new employee");
        }
        world
    }

    async fn open(&self, store: Arc<dyn TableStore>) -> Company {
        let mut of_queue = QueueOptions::default();
        of_queue.clock = Arc::new(self.clock);
        let queue =
            TableQueue::open_with(store.clone(), self.tickets.as_str(), "journal", of_queue).await;
        let queue = Arc::new(queue.expect("a queue"));
        let mut options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
        options.queue = Some(queue.clone());
        let more = if self.more { more() } else { Vec::new() };
        let employees =
            open_table_with(store.clone(), self.table.clone(), more, options.clone()).await;
        let employees = employees.expect("indexes that make sense");
        let projects = open_table(store, self.table.clone(), options).await;
        Company {
            employees,
            projects: projects.expect("indexes that make sense"),
            queue,
        }
    }

    async fn with_faults(&self, run: &FaultRun<'_>) -> Company {
        self.open(Arc::new(Faulty::new(
            self.store.clone(),
            run.faults.clone(),
        )))
        .await
    }

    /// Finishes all writes, checks that every index agrees with the entities, and returns the employees.
    async fn at_rest(&self, run: &FaultRun<'_>, recovery: Recover) -> Vec<Employee> {
        let company = self.open(self.store.clone()).await;
        if recovery == Recover::BySweep {
            company.sweep(&self.table).await;
        }
        company.work().await;
        assert!(
            company.queue.peek(1).await.expect("a queue").is_empty(),
            "{run}: a ticket is left"
        );
        company.sweep(&self.table).await;
        company.sweep(&self.table).await;
        self.check(run, &company).await;
        company.employees.query().all().await.expect("employees")
    }

    async fn check(&self, run: &FaultRun<'_>, company: &Company) {
        let journal = Filter::starts_with(Filter::ROW_KEY, &format!("{SYSTEM_PREFIX}j_"));
        let left = self
            .store
            .query_all(&self.table, &Query::new().with_filter(journal))
            .await;
        let left = left.expect("rows");
        assert!(left.is_empty(), "{run}: {left:?} are left");
        let more = if self.more {
            ["age", "ages", "manager"].as_slice()
        } else {
            &[]
        };
        for index in ["email", "city", "badge", "lead", "code"]
            .iter()
            .chain(more)
        {
            let scrub = company
                .employees
                .entities()
                .await
                .expect("an open table")
                .scrub(index, ScrubMode::Report)
                .await
                .expect("an index");
            assert_eq!(scrub.dangling, 0, "{run}: {index}");
            assert_eq!(scrub.missing, 0, "{run}: {index}");
            assert_eq!(scrub.taken_keys, 0, "{run}: {index}");
        }
        let pending = Filter::eq("OwnerPending", true);
        let pending = self
            .store
            .query_all(&self.table, &Query::new().with_filter(pending))
            .await;
        assert!(
            pending.expect("rows").is_empty(),
            "{run}: a reservation is left"
        );
    }
}

impl Company {
    /// Works until no ticket is visible.
    async fn work(&self) {
        for _ in 0..20 {
            sleep(Duration::from_secs(4)).await;
            let worker = Recovery::new(
                &*self.queue,
                vec![
                    self.employees
                        .entities()
                        .await
                        .expect("an open table")
                        .journal(),
                ],
            );
            if worker.run_once(32).await.expect("a queue") == 0 {
                break;
            }
        }
        sleep(Duration::from_secs(60)).await;
    }

    async fn sweep(&self, unique: &TableName) {
        let journal = self
            .employees
            .entities()
            .await
            .expect("an open table")
            .journal();
        journal
            .sweep(std::slice::from_ref(unique), Duration::ZERO)
            .await
            .expect("a sweep");
    }
}

/// Which process finishes the write: a worker with the ticket, or a sweep before any worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recover {
    ByWorkers,
    BySweep,
}

fn before() -> Vec<Employee> {
    vec![employee(1, "oslo"), employee(2, "oslo")]
}

type Act = for<'a> fn(&'a Company) -> BoxFuture<'a, Result<()>>;

/// A write, and the employees after it.
struct Path {
    name: &'static str,
    /// Whether the program knows indexes that the type does not declare.
    more: bool,
    act: Act,
    after: fn() -> Vec<Employee>,
}

const PATHS: [Path; 12] = [
    Path {
        name: "insert",
        more: false,
        act: |company| {
            async {
                company
                    .employees
                    .insert(&employee(3, "rome"))
                    .await
                    .map(drop)
            }
            .boxed()
        },
        after: || [before(), vec![employee(3, "rome")]].concat(),
    },
    Path {
        name: "update",
        more: false,
        act: update,
        after: || vec![moved(), employee(2, "oslo")],
    },
    Path {
        name: "upsert",
        more: false,
        act: |company| async { company.employees.upsert(&moved()).await.map(drop) }.boxed(),
        after: || vec![moved(), employee(2, "oslo")],
    },
    Path {
        name: "delete",
        more: false,
        act: |company| async { company.employees.delete_if_exists(key(1)).await.map(drop) }.boxed(),
        after: || vec![employee(2, "oslo")],
    },
    Path {
        name: "merge",
        more: false,
        act: merge,
        after: || vec![older(), employee(2, "oslo")],
    },
    Path {
        name: "merge with more indexes",
        more: true,
        act: merge,
        after: || vec![older(), employee(2, "oslo")],
    },
    Path {
        name: "update with more indexes",
        more: true,
        act: update,
        after: || vec![moved(), employee(2, "oslo")],
    },
    Path {
        name: "insert of a group",
        more: false,
        act: |company| {
            async {
                let mut group = company.employees.group(Employee::partition("Sales")?);
                group
                    .insert(&employee(3, "rome"))?
                    .insert(&employee(4, "oslo"))?;
                group.commit().await.map(drop)
            }
            .boxed()
        },
        after: || [before(), vec![employee(3, "rome"), employee(4, "oslo")]].concat(),
    },
    Path {
        name: "group",
        more: true,
        act: |company| {
            async {
                let [one, two] = [
                    company.employees.get_existing_stored(key(1)).await?,
                    company.employees.get_existing_stored(key(2)).await?,
                ];
                let mut group = company.employees.group(Employee::partition("Sales")?);
                group
                    .insert(&employee(3, "rome"))?
                    .replace_stored(&one, &moved())?
                    .delete_stored(&two)?;
                group.commit().await.map(drop)
            }
            .boxed()
        },
        after: || vec![moved(), employee(3, "rome")],
    },
    Path {
        name: "group of several types",
        more: true,
        act: several_types,
        after: || vec![moved(), employee(2, "oslo"), employee(3, "rome")],
    },
    Path {
        name: "typed group of several types",
        more: true,
        act: typed_group,
        after: || vec![moved(), employee(2, "oslo"), employee(3, "rome")],
    },
    Path {
        name: "taken",
        more: false,
        act: taken,
        after: before,
    },
];

fn moved() -> Employee {
    Employee {
        badge: Some(9),
        ..employee(1, "rome")
    }
}

fn older() -> Employee {
    Employee {
        age: 41,
        ..employee(1, "oslo")
    }
}

fn update(company: &Company) -> BoxFuture<'_, Result<()>> {
    async {
        let change = |employee: &mut Employee| {
            *employee = moved();
            Ok(())
        };
        company.employees.update(key(1), change).await.map(drop)
    }
    .boxed()
}

fn merge(company: &Company) -> BoxFuture<'_, Result<()>> {
    async {
        company
            .employees
            .merge(key(1), &Employee::patch().age(41), IfMatch::Any)
            .await
            .map(drop)
    }
    .boxed()
}

/// Inserts a department and an employee, and moves another employee.
fn several_types(company: &Company) -> BoxFuture<'_, Result<()>> {
    async {
        let entities = company.employees.entities().await?;
        let department = Department {
            name: "Sales".to_owned(),
            manager: "ken".to_owned(),
        };
        let old = entities.get_existing(key(1).key()).await?;
        let changes = [
            Change::insert(department.to_entity()?),
            Change::replace(old.into_inner(), moved().to_entity()?),
            Change::insert(employee(3, "rome").to_entity()?),
        ];
        entities.write(&changes).await.map(drop)
    }
    .boxed()
}

fn project() -> Project {
    Project {
        department: "Sales".to_owned(),
        code: "x1".to_owned(),
        lead: 3,
    }
}

/// Inserts a department, a project and an employee, and moves another employee.
fn typed_group(company: &Company) -> BoxFuture<'_, Result<()>> {
    async {
        let one = company.employees.get_existing_stored(key(1)).await?;
        let mut group = company.employees.group(Employee::partition("Sales")?);
        group
            .replace_stored(&one, &moved())?
            .insert(&employee(3, "rome"))?;
        group.insert(&project())?;
        let department = Department {
            name: "Sales".to_owned(),
            manager: "ken".to_owned(),
        };
        group.insert(&department)?;
        group.commit().await.map(drop)
    }
    .boxed()
}

fn taken(company: &Company) -> BoxFuture<'_, Result<()>> {
    async {
        let second = Employee {
            badge: Some(2),
            ..employee(3, "rome")
        };
        match company.employees.insert(&second).await {
            Err(error) if error.is_unique_violation() => Ok(()),
            other => other.map(drop),
        }
    }
    .boxed()
}

async fn write_with_faults(harness: &Harness, recovery: Recover) {
    for Path {
        name,
        more,
        act,
        after,
    } in PATHS
    {
        run_with_faults(
            harness,
            &format!("{name}, recovered {recovery:?}"),
            async |run| {
                let world = World::new(harness, more).await;
                let company = world.with_faults(run).await;
                run.begin();
                let answered = act(&company).await;
                run.end();
                drop(company);
                assert!(
                    !run.has_no_fault() || answered.is_ok(),
                    "{run}: {answered:?}"
                );
                let (found, after) = (world.at_rest(run, recovery).await, after());
                match answered {
                    Ok(()) => assert_eq!(found, after, "{run}: an acknowledged write is lost"),
                    Err(error) if error.outcome() == Outcome::NotApplied => {
                        assert_eq!(
                            found,
                            before(),
                            "{run}: the write took effect despite {error}"
                        );
                    }
                    Err(_) => assert!(found == before() || found == after, "{run}: {found:?}"),
                }
                if name.ends_with("group of several types") {
                    let department = Key::new("Sales", "department").expect("a legal key");
                    let department = world
                        .store
                        .get(&world.table, &department, None)
                        .await
                        .expect("the store works");
                    assert_eq!(
                        department.is_some(),
                        found == after,
                        "{run}: half of the group took effect"
                    );
                }
                if name == "typed group of several types" {
                    let projects = world.open(world.store.clone()).await.projects;
                    let code = projects
                        .by(Project::by_code("x1"))
                        .get()
                        .await
                        .expect("the store works");
                    assert_eq!(
                        code,
                        (found == after).then(project),
                        "{run}: half of the group took effect"
                    );
                }
            },
        )
        .await;
    }
}

/// Workers finish each write by its ticket.
pub(crate) async fn writes_are_finished_by_workers(harness: &Harness) {
    write_with_faults(harness, Recover::ByWorkers).await;
}

/// A sweep finds and finishes each write.
pub(crate) async fn writes_are_finished_by_a_sweep(harness: &Harness) {
    write_with_faults(harness, Recover::BySweep).await;
}
