//! The manifest's description of types: versions, layouts and encrypted names. A program with a conflicting
//! description is refused before anything is written.

use std::sync::Arc;
use std::time::Duration;

use conformance::open_table;
use object_store::memory::InMemory;
use table_core::adapter::{Metered, RequestMeter};
use table_core::manifest::{Layout, Manifest, StoredType};
use table_core::memory::MemoryStore;
use table_core::model::Entity;
use table_core::prelude::*;
use table_core::store::Error;
use table_encryption::{EncryptedStore, Keys};
use table_patterns::Database;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Payload, Placement, ScrubMode};

use crate::world::kek;

const TABLE: &str = "Things";

fn table() -> TableName {
    TableName::new(TABLE).unwrap()
}

/// Version 1, version 2, and a version 3 that version 2 can read.
mod versions {
    use table_core::prelude::*;

    #[derive(Clone, Debug, TableEntity)]
    #[entity(type = "Thing")]
    #[index(name, row_key = "name_{name}_{r}")]
    pub(super) struct V1 {
        #[partition_key]
        pub(super) p: String,
        #[row_key]
        pub(super) r: u32,
        pub(super) name: String,
    }

    #[derive(Clone, Debug, TableEntity)]
    #[entity(type = "Thing", version = 2, previous = V1)]
    #[index(name, row_key = "name_{name}_{r}")]
    pub(super) struct V2 {
        #[partition_key]
        pub(super) p: String,
        #[row_key]
        pub(super) r: u32,
        pub(super) name: String,
    }

    #[derive(Clone, Debug, TableEntity)]
    #[entity(type = "Thing", version = 3, min_reader = 2, previous = V2)]
    #[index(name, row_key = "name_{name}_{r}")]
    pub(super) struct V3 {
        #[partition_key]
        pub(super) p: String,
        #[row_key]
        pub(super) r: u32,
        pub(super) name: String,
    }

    impl From<V1> for V2 {
        fn from(V1 { p, r, name }: V1) -> Self {
            Self { p, r, name }
        }
    }

    impl From<V2> for V3 {
        fn from(V2 { p, r, name }: V2) -> Self {
            Self { p, r, name }
        }
    }
}

/// One type with several layouts: `text` is a plain or a large property.
mod layouts {
    use table_core::prelude::*;

    #[derive(Clone, Debug, PartialEq, TableEntity)]
    #[entity(type = "Thing")]
    #[index(name, row_key = "name_{name}_{r}")]
    pub(super) struct Plain {
        #[partition_key]
        pub(super) p: String,
        #[row_key]
        pub(super) r: u32,
        pub(super) name: String,
        pub(super) text: String,
    }

    #[derive(Clone, Debug, PartialEq, TableEntity)]
    #[entity(type = "Thing")]
    #[index(name, row_key = "name_{name}_{r}")]
    pub(super) struct Large {
        #[partition_key]
        pub(super) p: String,
        #[row_key]
        pub(super) r: u32,
        pub(super) name: String,
        #[large(over = 16)]
        pub(super) text: String,
    }

    /// The type declares neither of the texts.
    #[derive(Clone, Debug, TableEntity)]
    #[entity(type = "Thing")]
    #[index(name, row_key = "name_{name}_{r}")]
    pub(super) struct Short {
        #[partition_key]
        pub(super) p: String,
        #[row_key]
        pub(super) r: u32,
        pub(super) name: String,
    }

    #[derive(Clone, Debug, PartialEq, TableEntity)]
    #[entity(type = "Thing")]
    #[index(name, row_key = "name_{name}_{r}")]
    pub(super) struct Other {
        #[partition_key]
        pub(super) p: String,
        #[row_key]
        pub(super) r: u32,
        pub(super) name: String,
        #[large]
        pub(super) other: String,
    }

    pub(super) fn plain() -> Plain {
        Plain {
            p: "p".into(),
            r: 1,
            name: "one".into(),
            text: "text".repeat(20),
        }
    }

    pub(super) fn large() -> Large {
        Large {
            p: "p".into(),
            r: 2,
            name: "two".into(),
            text: "text".repeat(20),
        }
    }
}

/// A type with a marked secret, and a type of the same rows without the mark.
mod secrets {
    use table_core::prelude::*;

    #[derive(Clone, Debug, PartialEq, TableEntity)]
    #[entity(type = "Thing")]
    #[index(name, row_key = "name_{name}_{r}")]
    #[index(all, row_key = "all_{name}_{r}", payload = full)]
    pub(super) struct Marked {
        #[partition_key]
        pub(super) p: String,
        #[row_key]
        pub(super) r: u32,
        pub(super) name: String,
        #[encrypt]
        pub(super) secret: String,
    }

    #[derive(Clone, Debug, TableEntity)]
    #[entity(type = "Thing")]
    #[index(name, row_key = "name_{name}_{r}")]
    pub(super) struct Open {
        #[partition_key]
        pub(super) p: String,
        #[row_key]
        pub(super) r: u32,
        pub(super) name: String,
        pub(super) secret: String,
    }

    pub(super) fn marked(r: u32) -> Marked {
        Marked {
            p: "p".into(),
            r,
            name: "name".into(),
            secret: "secret".into(),
        }
    }
}

async fn stored(store: &dyn TableStore) -> StoredType {
    let [stored] = Manifest::load(store, &table())
        .await
        .unwrap()
        .types
        .try_into()
        .unwrap();
    stored
}

/// Writes the description of a type as another or a later program does.
async fn say(store: &dyn TableStore, change: impl FnOnce(&mut StoredType)) {
    let mut said = stored(store).await;
    change(&mut said);
    store
        .write(&table(), said.operation().unwrap())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn versions_grow() {
    use versions::{V1, V2, V3};
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let said = async || {
        let StoredType {
            version, reader, ..
        } = stored(&*store).await;
        (version, reader)
    };
    open_table::<V2>(store.clone(), TABLE, IndexOptions::local())
        .await
        .unwrap();
    assert_eq!(said().await, (2, 2));
    let (_, again) = meter
        .measure(open_table::<V2>(
            store.clone(),
            TABLE,
            IndexOptions::local(),
        ))
        .await;
    let (_, older) = meter
        .measure(open_table::<V1>(
            store.clone(),
            TABLE,
            IndexOptions::local(),
        ))
        .await;
    assert_eq!(said().await, (2, 2), "an earlier version says nothing new");
    assert_eq!(
        older.total(),
        again.total(),
        "an earlier version says nothing new"
    );
    let (_, newer) = meter
        .measure(open_table::<V3>(
            store.clone(),
            TABLE,
            IndexOptions::local(),
        ))
        .await;
    assert_eq!(
        said().await,
        (3, 2),
        "a later one writes it once, and reads what is there then"
    );
    assert_eq!(
        newer.total(),
        again.total() + 2,
        "a later one writes it once, and reads what is there then"
    );
    let (_, newer) = meter
        .measure(open_table::<V3>(
            store.clone(),
            TABLE,
            IndexOptions::local(),
        ))
        .await;
    assert_eq!(said().await, (3, 2));
    assert_eq!(newer.total(), again.total());
    let row = store
        .get(
            &table(),
            &Key::new("~~manifest", "type~Thing").unwrap(),
            None,
        )
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.get("Version"), Some(ValueRef::Int32(3)));
    assert_eq!(row.get("Reader"), Some(ValueRef::Int32(2)));
    assert_eq!(row.get("Layout"), Some(ValueRef::String("\"plain\"")));
    assert_eq!(row.get("Encrypted"), Some(ValueRef::String("[]")));
}

#[tokio::test(start_paused = true)]
async fn plain_and_large() {
    use layouts::{Large, Other, Plain, Short, large, plain};
    let (store, blobs): (Arc<dyn TableStore>, _) =
        (Arc::new(MemoryStore::new()), Arc::new(InMemory::new()));
    let before = open_table::<Plain>(store.clone(), TABLE, IndexOptions::local())
        .await
        .unwrap();
    before.insert(&plain()).await.unwrap();
    assert_eq!(stored(&*store).await.layout, Layout::Plain);
    let program =
        || Database::with_options(store.clone(), IndexOptions::local()).with_blobs(blobs.clone());
    let after = program().table::<Large>(TABLE).unwrap();
    after.insert(&large()).await.unwrap();
    assert_eq!(
        stored(&*store).await.layout.to_json(),
        r#"{"large":{"properties":["text"]}}"#
    );

    // A program that declares the text as a plain property can no longer write, but still reads.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let key = || Plain::key("p", 1u32).unwrap();
    let refused = [
        before.insert(&Plain { r: 3, ..plain() }).await.map(drop),
        before.upsert(&plain()).await.map(drop),
        before.update(key(), |_| Ok(())).await.map(drop),
        before
            .merge(key(), &Plain::patch().text("merged"), IfMatch::Any)
            .await
            .map(drop),
        before.delete(key(), IfMatch::Any).await.map(drop),
    ];
    for refused in refused {
        check(
            &refused.unwrap_err(),
            "with large values of text in blobs",
            " as rows of one entity each:",
        );
    }
    assert_eq!(
        before
            .by(Plain::by_name("p").name("one"))
            .all()
            .await
            .unwrap(),
        [plain()]
    );
    let opened = open_table::<Plain>(store.clone(), TABLE, IndexOptions::local()).await;
    let reader = Database::new(store.clone()).table::<Plain>(TABLE).unwrap();
    let read = reader.by(Plain::by_name("p").name("one")).all().await;
    for refused in [opened.unwrap_err(), read.unwrap_err()] {
        check(
            &refused,
            "with large values of text in blobs",
            " as rows of one entity each:",
        );
    }

    // A type without the property does not change its layout. A type with another large property adds that
    // property.
    let short = open_table::<Short>(store.clone(), TABLE, IndexOptions::local())
        .await
        .unwrap();
    let rename = |short: &mut Short| {
        short.name = "three".into();
        Ok(())
    };
    short
        .update(Short::key("p", 2u32).unwrap(), rename)
        .await
        .unwrap();
    let read = after
        .get_existing(Large::key("p", 2u32).unwrap())
        .await
        .unwrap();
    assert_eq!(read.name.as_str(), "three");
    assert_eq!(read.text, large().text);
    let other = program().table::<Other>(TABLE).unwrap();
    other.declare().await.unwrap();
    assert_eq!(
        stored(&*store).await.layout.to_json(),
        r#"{"large":{"properties":["other","text"]}}"#
    );
    after.upsert(&large()).await.unwrap();
}

/// Asserts that the error names both layouts.
fn check(error: &Error, stored: &str, mine: &str) {
    let text = error.to_string();
    let (first, second) = text.split_once("and this program stores").expect(&text);
    assert!(first.contains(stored) && second.contains(mine), "{text}");
}

#[tokio::test]
async fn other_layouts() {
    use layouts::{Plain, plain};
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    open_table::<Plain>(store.clone(), TABLE, IndexOptions::local())
        .await
        .unwrap();
    let spread = Layout::Spread {
        buckets: 4,
        salt: "x".into(),
    };
    for (layout, named) in [
        (Layout::Wide, "wide entities of several rows"),
        (spread, "rows spread over 4 buckets by the salt \"x\""),
        (
            Layout::from_json(r#"{"folded":3}"#),
            r#"a layout that this program does not know, {"folded":3}"#,
        ),
    ] {
        say(&*store, |said| said.layout = layout.clone()).await;
        let opened = open_table::<Plain>(store.clone(), TABLE, IndexOptions::local()).await;
        check(&opened.unwrap_err(), named, " as rows of one entity each:");
        // The description of a later program does not change.
        assert_eq!(stored(&*store).await.layout, layout);
    }
    assert!(Layout::Plain.serves(Plain::SCHEMA) && plain().text.len() > 16);
}

struct Sealed {
    raw: Arc<dyn TableStore>,
    store: Arc<dyn TableStore>,
}

impl Sealed {
    fn new() -> Self {
        let raw: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
        let store = EncryptedStore::builder(raw.clone(), Keys::new(kek(1)))
            .build()
            .unwrap();
        Self {
            raw,
            store: Arc::new(store),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_without_marks() {
    use secrets::{Marked, Open, marked};
    let Sealed { raw, store } = Sealed::new();
    // The program from before the mark.
    let before = open_table::<Open>(raw.clone(), TABLE, IndexOptions::local())
        .await
        .unwrap();
    let things = open_table::<Marked>(store.clone(), TABLE, IndexOptions::local())
        .await
        .unwrap();
    things.insert(&marked(1)).await.unwrap();
    assert_eq!(
        stored(&*raw)
            .await
            .encrypted
            .into_iter()
            .collect::<Vec<_>>(),
        ["secret"]
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    let open = Open {
        p: "p".into(),
        r: 2,
        name: "name".into(),
        secret: "secret".into(),
    };
    let refused = [
        before.insert(&open).await.unwrap_err(),
        open_table::<Open>(raw.clone(), TABLE, IndexOptions::local())
            .await
            .unwrap_err(),
    ];
    for error in refused {
        let text = error.to_string();
        assert!(
            text.contains("'secret'") && text.contains("encrypted"),
            "{text}"
        );
    }
    // Every handle gets the encrypted names of the manifest, in a program whose store does not know the names
    // yet.
    let store = EncryptedStore::builder(raw.clone(), Keys::new(kek(1)))
        .build()
        .unwrap();
    let any = IndexedEntities::open(Arc::new(store), table(), Vec::new(), IndexOptions::local())
        .await
        .unwrap();
    let entity = Entity::new("p", "0000000003")
        .unwrap()
        .with("EntityType", "Thing")
        .with("name", "x");
    let error = any
        .insert(entity.clone().with("secret", "plain"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'secret' as encrypted") && !error.contains("plain\""),
        "{error}"
    );
    any.insert(
        Entity::new("p", "4")
            .unwrap()
            .with("EntityType", "Other")
            .with("secret", "x"),
    )
    .await
    .unwrap();
    any.insert(entity.with_encrypted("secret", "sealed"))
        .await
        .unwrap();
    let rows = raw
        .query_all(&table(), &table_core::query::Query::new())
        .await
        .unwrap();
    assert!(
        rows.iter()
            .all(|row| row.get("secret") != Some(ValueRef::String("plain")))
    );
}

/// Without keys, an index over encrypted values is refused by name: for a build, a scrub and a write. Other
/// indexes are maintained.
#[tokio::test(start_paused = true)]
async fn maintenance_without_keys() {
    use secrets::{Marked, marked};
    let Sealed { raw, store } = Sealed::new();
    let things = open_table::<Marked>(store.clone(), TABLE, IndexOptions::local())
        .await
        .unwrap();
    for r in 0..3 {
        things.insert(&marked(r)).await.unwrap();
    }
    let keeper = IndexedEntities::open_for_upkeep(raw.clone(), table(), IndexOptions::local())
        .await
        .unwrap();
    let refused = [
        keeper.scrub("all", ScrubMode::Repair).await.map(drop),
        keeper.build("all").map(drop),
        keeper
            .list("all", &Key::new("p", "all_name").unwrap())
            .await
            .map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains("'all.") && error.contains("'secret'"),
            "{error}"
        );
    }
    let found = keeper.scrub("name", ScrubMode::Report).await.unwrap();
    assert_eq!(found.entries, 3);
    assert_eq!(found.missing, 0);
    assert_eq!(found.dangling, 0);

    // A program that defines the index itself gets the same error, and so does a program that writes the
    // entities.
    let full = Index::keyed(
        "mine",
        Placement::SamePartition,
        "{PartitionKey}",
        "mine_{RowKey}",
    )
    .unwrap();
    let full = full
        .with_discriminator("EntityType", "Thing")
        .with_payload(Payload::Full);
    let own = IndexedEntities::open(raw.clone(), table(), vec![full], IndexOptions::local())
        .await
        .unwrap();
    let error = own.build("mine").map(drop).unwrap_err().to_string();
    assert!(
        error.contains("'mine.") && error.contains("'secret'"),
        "{error}"
    );
    let thing = Entity::new("p", "0000000009")
        .unwrap()
        .with("EntityType", "Thing")
        .with("name", "x");
    let error = own.insert(thing).await.unwrap_err().to_string();
    assert!(error.contains("'secret'"), "{error}");
    own.insert(Entity::new("p", "9").unwrap().with("EntityType", "Other"))
        .await
        .unwrap();

    // With keys all indexes are maintained.
    let keeper = IndexedEntities::open_for_upkeep(store.clone(), table(), IndexOptions::local())
        .await
        .unwrap();
    for index in ["all", "name"] {
        let found = keeper.scrub(index, ScrubMode::Repair).await.unwrap();
        assert_eq!(found.entries, 3, "{index}");
        assert_eq!(found.missing, 0, "{index}");
        assert_eq!(found.dangling, 0, "{index}");
    }
}
