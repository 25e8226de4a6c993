//! Moves to another partition, by processes that die or pause at each of their requests.

use std::sync::Arc;
use std::time::Duration;

use crate::index::tests::open_table;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, TableName, Ticks, ValueRef};
use table_core::prelude::TableEntity;
use table_core::query::Query;
use table_core::queue::WorkQueue as _;
use table_core::store::{Result, TableStore, TableStoreExt as _};
use tokio::time::timeout;

use crate::clock::TokioClock;
use crate::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Payload, Placement, ScrubMode, Trust,
};
use crate::journal::{Change, Clearing};
use crate::queue::{QueueOptions, TableQueue};

const HOUR: Duration = Duration::from_secs(3600);
const EMAIL: &str = "ken@x";

fn table() -> TableName {
    TableName::new("Users").unwrap()
}

fn source() -> Key {
    Key::new("p", "1").unwrap()
}

fn target() -> Key {
    Key::new("q", "1").unwrap()
}

fn user(key: Key) -> Entity {
    Entity::from(key)
        .with("Email", EMAIL)
        .with("City", "oslo")
        .with("Age", 40)
}

fn indexes() -> Result<Vec<Index>> {
    let email = Index::keyed("email", Placement::OtherPartition, "u_{Email}", "email")?;
    let city = Index::keyed(
        "city",
        Placement::OtherPartition,
        "c_{City}",
        "{PartitionKey}_{RowKey}",
    )?;
    let age = Index::keyed("age", Placement::SamePartition, "", "age_{Age}_{RowKey}")?;
    Ok(vec![
        email.unique_within_table().with_payload(Payload::Full),
        city,
        age,
    ])
}

/// A process whose requests can be delayed, and another process.
struct Two {
    store: MemoryStore,
    faults: FaultInjector,
    mover: IndexedEntities,
    other: IndexedEntities,
}

impl Two {
    async fn new() -> Result<Self> {
        let (store, faults) = (MemoryStore::new(), FaultInjector::new(1));
        store.create_table(&table()).await?;
        let faulty = Arc::new(Faulty::new(store.clone(), faults.clone()));
        let mover = IndexedEntities::open(
            faulty,
            table(),
            indexes()?,
            IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
        )
        .await?;
        let plain: Arc<dyn TableStore> = Arc::new(store.clone());
        let other = IndexedEntities::open(
            plain,
            table(),
            indexes()?,
            IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
        )
        .await?;
        other.insert(user(source())).await?;
        Ok(Self {
            store,
            faults,
            mover,
            other,
        })
    }

    fn hold(&self, request: u64, length: Duration) {
        self.faults
            .add(FaultRule::new(Fault::Delay(length)).nth(request));
    }

    /// A move that dies before its n-th request; returns whether the move ended before that request.
    async fn dies_before(&self, request: u64) -> Result<bool> {
        self.hold(request, HOUR);
        let ended = timeout(
            Duration::from_secs(1),
            self.mover.move_to(&source(), &self.mover, &target()),
        )
        .await;
        Ok(ended.is_ok_and(|moved| moved.is_ok()))
    }

    async fn rows(&self) -> Result<Vec<Entity>> {
        self.store.query_all(&table(), &Query::new()).await
    }

    /// The entities found by key and by each index; asserts that no read returns a mark.
    async fn found(&self) -> Result<Vec<Entity>> {
        let mut found = Vec::new();
        for key in [source(), target()] {
            found.extend(
                self.other
                    .get(&key)
                    .await?
                    .map(|stored| stored.entity().clone()),
            );
        }
        assert!(!found.is_empty(), "it is lost");
        assert!(!found.iter().any(has_mark), "{found:?}");
        let key = Key::new(format!("u_{EMAIL}"), "email")?;
        for trust in [Trust::Entry, Trust::Entity] {
            let by_email = self
                .other
                .find("email", &key, trust)
                .await?
                .expect("its value finds it");
            assert!(!has_mark(&by_email), "{by_email:?}");
            assert_eq!(by_email.get("Email"), Some(ValueRef::String(EMAIL)));
        }
        Ok(found)
    }

    /// After a sweep: asserts that the entity has one key, its entries exist, and no other row remains.
    async fn settled(&self) -> Result<Entity> {
        for _ in 0..2 {
            let report = self
                .other
                .journal()
                .sweep(&[table()], Duration::ZERO)
                .await?;
            assert_eq!(report.left, 0);
        }
        let rows = self.rows().await?;
        assert!(!rows.iter().any(has_mark), "{rows:?}");
        let left: Vec<_> = rows
            .iter()
            .filter(|row| row.key().row().starts_with("~~j_"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        for index in ["email", "city", "age"] {
            let report = self.other.scrub(index, ScrubMode::Report).await?;
            assert_eq!(report.dangling, 0, "{index}");
            assert_eq!(report.missing, 0, "{index}");
            assert_eq!(report.taken_keys, 0, "{index}");
        }
        let mut found = self.found().await?;
        assert_eq!(found.len(), 1, "{found:?}");
        let all = self
            .other
            .all("city", &IndexQuery::partition("c_oslo"), Trust::Entity)
            .await?;
        assert_eq!(
            all.iter().map(Entity::key).collect::<Vec<_>>(),
            [found[0].key()]
        );
        Ok(found.remove(0))
    }
}

fn has_mark(entity: &Entity) -> bool {
    entity
        .properties()
        .iter()
        .any(|p| p.name().starts_with("EntityMove"))
}

fn age(entity: &Entity) -> i32 {
    match entity.get("Age") {
        Some(ValueRef::Int32(age)) => age,
        _ => 0,
    }
}

/// The next action after the death of the mover.
#[derive(Clone, Copy, Debug)]
enum Then {
    Sweep,
    Claim,
    Write,
    MoveOn,
}

#[tokio::test(start_paused = true)]
async fn after_the_death_of_a_mover_the_entity_has_one_key() -> Result<()> {
    for then in [Then::Sweep, Then::Claim, Then::Write, Then::MoveOn] {
        let (mut marked, mut both) = (0, 0);
        for request in 1.. {
            let two = Two::new().await?;
            let ended = two.dies_before(request).await?;
            let found = two.found().await?;
            marked += usize::from(two.rows().await?.iter().any(has_mark));
            both += usize::from(found.len() == 2);
            let mut expected = 40;
            match then {
                Then::Sweep => {}
                Then::Claim => {
                    let other = user(Key::new("r", "2")?);
                    let error = two.other.insert(other).await.unwrap_err();
                    assert!(error.is_unique_violation(), "{error}");
                }
                Then::Write => {
                    // A write at the source stops the move, so the entity stays at the source.
                    let older =
                        |old: Option<&Entity>| Ok(old.map(|old| old.clone().with("Age", 41)));
                    two.other.modify(&source(), older).await?;
                    if let Some(written) = two.other.get(&source()).await? {
                        assert_eq!(age(written.entity()), 41);
                        assert!(
                            two.other.get(&target()).await?.is_none(),
                            "it is in two places"
                        );
                        expected = 41;
                    }
                }
                Then::MoveOn => {
                    let on = Key::new("r", "1")?;
                    if let Err(error) = two.other.move_to(&source(), &two.other, &on).await {
                        assert!(error.is_entity_not_found(), "{error}");
                        two.other.move_to(&target(), &two.other, &on).await?;
                    }
                    assert!(two.other.get(&source()).await?.is_none());
                    two.other.move_to(&on, &two.other, &target()).await?;
                }
            }
            assert_eq!(
                age(&two.settled().await?),
                expected,
                "{then:?}, dead before request {request}"
            );
            if ended {
                assert_eq!(request, 14, "{then:?}");
                break;
            }
        }
        assert_eq!(marked, 4, "{then:?}");
        assert_eq!(both, 1, "{then:?}");
    }
    Ok(())
}

/// Recovery would write an abort row and give the move up.
#[tokio::test(start_paused = true)]
async fn a_handle_opened_to_read_refuses_to_recover_a_move() -> Result<()> {
    for request in 1.. {
        let two = Two::new().await?;
        let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
        let options = QueueOptions {
            clock,
            ..QueueOptions::default()
        };
        let queue =
            TableQueue::open_with(Arc::new(MemoryStore::new()), "Work", "journal", options).await?;
        let queue = Arc::new(queue);
        let options = IndexOptions {
            queue: Some(queue.clone()),
            ..IndexOptions::default()
        };
        let faulty = Arc::new(Faulty::new(two.store.clone(), two.faults.clone()));
        let mover = IndexedEntities::open(faulty, table(), indexes()?, options).await?;
        two.hold(request, HOUR);
        let (from, to) = (source(), target());
        let moves = mover.move_to(&from, &mover, &to);
        assert!(
            timeout(Duration::from_secs(1), moves).await.is_err(),
            "no request left a mark alone"
        );
        let before = two.rows().await?;
        if !before.iter().any(has_mark) {
            continue;
        }
        // The ticket is hidden while the mover may still work.
        tokio::time::sleep(HOUR).await;
        let ticket = queue.receive(1, HOUR).await?.remove(0).body;
        let plain: Arc<dyn TableStore> = Arc::new(two.store.clone());
        let options = IndexOptions::default();
        let reader = IndexedEntities::open_to_read(plain, table(), indexes()?, options).await?;
        let refused = reader
            .journal()
            .recover(&ticket, 1)
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains("'Users' was opened to read"), "{refused}");
        assert_eq!(two.rows().await?, before);
        two.other.journal().recover(&ticket, 2).await?;
        assert!(!two.rows().await?.iter().any(has_mark));
        assert_eq!(age(&two.settled().await?), 40);
        break;
    }
    Ok(())
}

/// A move does not overwrite a write that happened while the mover paused.
#[tokio::test(start_paused = true)]
async fn a_paused_mover_moves_the_latest_write() -> Result<()> {
    for by_change in [false, true] {
        for request in 1..13 {
            let (two, from, to) = (Two::new().await?, source(), target());
            two.hold(request, Duration::from_secs(1));
            let writes = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let Some(old) = two.other.get(&source()).await? else {
                    return Ok(40);
                };
                let new = old.entity().clone().with("Age", 41);
                let written = match by_change {
                    false => two.other.replace(&old, new).await,
                    true => {
                        two.other
                            .write(&[Change::replace(old.entity().clone(), new)])
                            .await
                    }
                };
                match written {
                    Ok(_) => Ok(41),
                    Err(error) if error.is_precondition_failed() => Ok(40),
                    Err(error) => Err(error),
                }
            };
            let (moved, written) = tokio::join!(two.mover.move_to(&from, &two.mover, &to), writes);
            moved.unwrap_or_else(|error| panic!("held at request {request}: {error}"));
            let there = two.settled().await?;
            assert_eq!(there.key(), &target(), "held at request {request}");
            assert_eq!(age(&there), written?, "held at request {request}");
        }
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Member", rename_all = "PascalCase")]
#[index(
    email,
    partition_key = "u_{email}",
    row_key = "email",
    unique = "table"
)]
struct Member {
    #[partition_key]
    team: String,
    #[row_key]
    id: u32,
    email: String,
    age: i32,
}

/// An unconditional patch must not write into the source of a move.
#[tokio::test(start_paused = true)]
async fn an_unconditional_patch_reaches_the_moved_entity() -> Result<()> {
    for request in 1..12 {
        let (store, faults) = (MemoryStore::new(), FaultInjector::new(1));
        let faulty = Faulty::new(store.clone(), faults.clone());
        let mover = open_table::<Member>(faulty, "Members", IndexOptions::default()).await?;
        let other = open_table::<Member>(store, "Members", IndexOptions::default()).await?;
        other
            .insert(&Member {
                team: "red".into(),
                id: 1,
                email: EMAIL.into(),
                age: 40,
            })
            .await?;
        faults.add(FaultRule::new(Fault::Delay(Duration::from_secs(1))).nth(request));
        let patches = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            match other
                .merge(
                    Member::key("red", 1)?,
                    &Member::patch().age(41),
                    IfMatch::Any,
                )
                .await
            {
                Ok(_) => Ok(41),
                Err(error) if error.is_entity_not_found() => Ok(40),
                Err(error) => Err(error),
            }
        };
        let moves = mover.move_to(Member::key("red", 1)?, &mover, Member::key("blue", 1)?);
        let (moved, patched) = tokio::join!(moves, patches);
        moved?;
        let there = other.get_existing(Member::key("blue", 1)?).await?;
        assert_eq!(there.age, patched?, "held at request {request}");
        assert!(other.get(Member::key("red", 1)?).await?.is_none());
    }
    Ok(())
}

/// A unique value passes from one entity of a group to another, and two entities of a group exchange their values.
#[tokio::test(start_paused = true)]
async fn unique_values_pass_between_entities_of_a_group() -> Result<()> {
    let two = Two::new().await?;
    let (old, second) = (
        two.other.get_existing(&source()).await?,
        Key::new("p", "2")?,
    );
    let heir = user(second.clone());
    two.other
        .write(&[Change::delete(old.entity().clone()), Change::insert(heir)])
        .await?;
    assert_eq!(two.settled_at(&second).await?, EMAIL);

    let third = Key::new("p", "3")?;
    two.other
        .insert(user(third.clone()).with("Email", "kim@x"))
        .await?;
    let [a, b] = [
        two.other.get_existing(&second).await?,
        two.other.get_existing(&third).await?,
    ];
    let with = |key: &Key, email: &str| user(key.clone()).with("Email", email);
    let exchange = [
        Change::replace(a.entity().clone(), with(&second, "kim@x")),
        Change::replace(b.entity().clone(), with(&third, EMAIL)),
    ];
    two.other.write(&exchange).await?;
    assert_eq!(two.settled_at(&third).await?, EMAIL);
    assert_eq!(two.settled_at(&second).await?, "kim@x");
    Ok(())
}

impl Two {
    /// The value in the entity and in its entry.
    async fn settled_at(&self, key: &Key) -> Result<String> {
        let entity = self.other.get_existing(key).await?;
        let Some(ValueRef::String(email)) = entity.entity().get("Email") else {
            return Ok(String::new());
        };
        let entry = Key::new(format!("u_{email}"), "email")?;
        let found = self
            .other
            .find("email", &entry, Trust::Entry)
            .await?
            .expect("its value finds it");
        assert_eq!(found.key(), key);
        let report = self.other.scrub("email", ScrubMode::Report).await?;
        assert_eq!(report.dangling, 0);
        assert_eq!(report.missing, 0);
        assert_eq!(report.taken_keys, 0);
        Ok(email.to_owned())
    }
}
