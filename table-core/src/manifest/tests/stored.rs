//! Rows of a manifest that say nothing, and definitions that need a consent.

use serde_json::Value;
use uuid::Uuid;

use crate::limits;
use crate::manifest::{
    Consent, EntityType, IndexDefinition, IndexState, Manifest, Placement, StoredIndex,
};
use crate::memory::MemoryStore;
use crate::model::{Entity, MANIFEST_PARTITION, SERVER_TABLE, TableName};
use crate::operation::Operation;
use crate::store::{ErrorKind, Result, ServiceProfile, TableStore, TableStoreExt as _};

const PROFILE: &ServiceProfile = &ServiceProfile::AZURE_TABLES;

fn table(name: &'static str) -> TableName {
    TableName::from_static(name)
}

fn definition(name: &'static str, placement: Placement) -> IndexDefinition {
    let partition = "{City}".parse().unwrap();
    IndexDefinition::keyed(
        name,
        placement,
        Some(partition),
        "{RowKey}".parse().unwrap(),
    )
}

fn row(definition: &IndexDefinition) -> Entity {
    StoredIndex::new(definition, IndexState::Readable)
        .to_entity()
        .unwrap()
}

fn manifest(rows: impl IntoIterator<Item = Entity>) -> Manifest {
    Manifest::from_rows(PROFILE, &table("Guests"), rows)
}

fn ids(indexes: &[StoredIndex]) -> Vec<&str> {
    indexes.iter().map(|index| index.name.as_str()).collect()
}

#[test]
fn a_row_that_disagrees_with_its_definition_is_refused_alone() -> Result<()> {
    let (good, planted) = (
        definition("good", Placement::OtherPartition),
        definition("city", Placement::OtherPartition),
    );
    let planted_row = row(&planted);
    let other = definition("other", Placement::OtherPartition);
    let elsewhere = definition("city", Placement::OtherTable(table("Victim")));
    let garbage = |name: &str, value: &str| planted_row.clone().with(name, value);
    let rows = [
        ("Definition", garbage("Definition", "{")),
        (
            "Definition",
            garbage("Definition", &planted.to_json().replace(':', ": ")),
        ),
        ("Definition", planted_row.clone().with("Definition", 7)),
        ("Name", garbage("Name", "mine")),
        ("EntityType", garbage("EntityType", "Order")),
        ("Discriminator", garbage("Discriminator", "{}")),
        ("Fingerprint", garbage("Fingerprint", &other.fingerprint())),
        ("Shape", garbage("Shape", "\"blob\"")),
        ("IndexTable", garbage("IndexTable", "Victim")),
        ("'closed'", garbage("State", "closed")),
        ("Format", garbage("Format", "1")),
        ("Format", planted_row.clone().with("Format", 0)),
        (
            "RowKey",
            Entity::from_parts(row(&other).key().clone(), planted_row.properties().clone()),
        ),
        // The table is one of the definition, and the row does not name it.
        ("IndexTable", {
            let mut hidden = row(&elsewhere);
            hidden.properties_mut().remove("IndexTable");
            hidden
        }),
    ];
    for (why, damaged) in rows {
        let read = manifest([row(&good), damaged.clone()]);
        assert_eq!(ids(&read.indexes), ["good"], "{damaged:?}");
        let [refused] = &read.refused[..] else {
            panic!("{damaged:?}: {:?}", read.refused)
        };
        assert_eq!(refused.key, *damaged.key());
        assert!(refused.reason.contains(why), "{why}: {}", refused.reason);
    }
    let mut without = planted_row.clone();
    without.properties_mut().remove("Definition");
    assert_eq!(manifest([without]).refused.len(), 1);
    // A later format is known by name and type, so that writes of its entities can be refused.
    let later = manifest([planted_row.with("Format", 99)]);
    assert!(later.refused.is_empty() && later.indexes[0].definition.is_none());
    Ok(())
}

#[test]
fn a_damaged_row_of_a_type_is_refused_alone() -> Result<()> {
    let types = |property: &str, value: i32| -> Result<Manifest> {
        let row = Entity::new(MANIFEST_PARTITION, "type~Order")?
            .with("Format", 1)
            .with("EntityType", "Order")
            .with("Discriminator", "{\"property\":\"EntityType\"}")
            .with("Version", 1)
            .with("Reader", 1)
            .with("Layout", "\"plain\"")
            .with("Encrypted", "[]");
        Ok(manifest([if property.is_empty() {
            row
        } else {
            row.with(property, value)
        }]))
    };
    assert_eq!(types("", 0)?.types.len(), 1);
    let order = EntityType {
        name: "Order".into(),
        ..EntityType::ANY
    };
    for property in ["Discriminator", "Layout", "Encrypted"] {
        let read = types(property, 7)?;
        assert_eq!((read.types.len(), read.refused.len()), (0, 1), "{property}");
        let error = read
            .check_type_row(&table("Orders"), &order)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("type~Order") && error.contains(property),
            "{error}"
        );
    }
    Ok(())
}

#[test]
fn no_definition_reaches_the_table_of_a_server() {
    let name = TableName::new(SERVER_TABLE.to_lowercase()).unwrap();
    let planted = definition("city", Placement::OtherTable(name));
    assert!(
        planted
            .validate()
            .unwrap_err()
            .to_string()
            .contains(SERVER_TABLE)
    );
    let read = manifest([row(&planted)]);
    assert_eq!((read.refused.len(), read.all_definitions().count()), (1, 0));
    // In a later format only the property names the table.
    let later = row(&planted).with("Format", 99);
    assert_eq!((manifest([later]).refused.len()), 1);
}

/// A store with the table of the entities, that of the entries, and a definition that leads from one to the other.
struct World {
    store: MemoryStore,
    stored: StoredIndex,
}

impl World {
    async fn new() -> Result<Self> {
        let store = MemoryStore::new();
        for name in ["Guests", "Victim", "Third"] {
            store.create_table(&table(name)).await?;
        }
        let definition = definition("city", Placement::OtherTable(table("Victim")));
        let world = Self {
            store,
            stored: StoredIndex::new(&definition, IndexState::Readable),
        };
        world.put("Guests", world.stored.to_entity()?).await?;
        Ok(world)
    }

    async fn put(&self, to: &'static str, row: Entity) -> Result<()> {
        self.store
            .write(&table(to), Operation::InsertOrReplace(row))
            .await
            .map(drop)
    }

    async fn pair(&self, id: Uuid) -> Result<()> {
        self.put("Guests", Manifest::pairing_row(id)?).await
    }

    fn consent(&self, pairing: Uuid) -> Consent {
        let definition = self.stored.definition_sha256().to_owned();
        Consent {
            source: table("guests"),
            pairing,
            definition,
            renewal: None,
        }
    }

    async fn is_in_force(&self) -> Result<bool> {
        let read = Manifest::load(&self.store, &table("Guests")).await?;
        assert_eq!(read.all_definitions().count(), 1);
        Ok(read.not_in_force.is_empty())
    }
}

#[tokio::test]
async fn a_definition_that_leaves_its_table_needs_the_consent_of_the_other_table() -> Result<()> {
    let (world, id) = (World::new().await?, Uuid::from_u128(1));
    let profile = world.store.profile().clone();
    assert!(!world.is_in_force().await?);
    world.pair(id).await?;
    assert!(!world.is_in_force().await?);
    let consent = world.consent(id);
    assert_eq!(
        Consent::read(&consent.to_entity(&profile)?),
        Some(consent.clone())
    );
    for (to, wrong) in [
        ("Third", consent.clone()),
        (
            "Victim",
            Consent {
                pairing: Uuid::from_u128(2),
                ..consent.clone()
            },
        ),
        (
            "Victim",
            Consent {
                source: table("Third"),
                ..consent.clone()
            },
        ),
        (
            "Victim",
            Consent {
                renewal: Some(id),
                ..consent.clone()
            },
        ),
        (
            "Victim",
            Consent {
                definition: "0".repeat(64),
                ..consent.clone()
            },
        ),
    ] {
        world.put(to, wrong.to_entity(&profile)?).await?;
        assert!(!world.is_in_force().await?, "{to}: {wrong:?}");
    }
    world.put("Victim", consent.to_entity(&profile)?).await?;
    assert!(world.is_in_force().await?);
    // The source is made again: its pairing id is another one.
    world.pair(Uuid::from_u128(3)).await?;
    assert!(!world.is_in_force().await?);
    world.pair(id).await?;
    world.store.delete_table(&table("Victim")).await?;
    assert!(!world.is_in_force().await?);
    Ok(())
}

#[tokio::test]
async fn a_cached_manifest_is_forgotten_with_the_consent_on_which_it_rests() -> Result<()> {
    let (world, id) = (World::new().await?, Uuid::from_u128(1));
    let profile = world.store.profile().clone();
    let is_in_force = async || -> Result<bool> {
        Ok(!world
            .store
            .manifest(&table("Guests"))
            .await?
            .indexes
            .is_empty())
    };
    world.pair(id).await?;
    assert!(!is_in_force().await?);
    world
        .put("Victim", world.consent(id).to_entity(&profile)?)
        .await?;
    assert!(is_in_force().await?);
    world.store.delete_table(&table("Victim")).await?;
    assert!(!is_in_force().await?);
    Ok(())
}

#[test]
fn the_elements_of_a_list_are_counted_before_a_key_is_computed() -> Result<()> {
    let tags = IndexDefinition::keyed(
        "tag",
        Placement::OtherPartition,
        Some("{Tags[]}".parse()?),
        "{RowKey}".parse()?,
    );
    let with = |count: usize| {
        let list: Vec<Value> = (0..count).map(|n| format!("t{n}").into()).collect();
        Entity::new("p", "r")
            .unwrap()
            .with("Tags", Value::from(list).to_string())
    };
    assert_eq!(
        tags.entry_keys(&with(limits::LIST_ELEMENTS))?.len(),
        limits::LIST_ELEMENTS
    );
    let error = tags
        .entry_keys(&with(limits::LIST_ELEMENTS + 1))
        .unwrap_err();
    assert!(error.to_string().contains("'tag'"), "{error}");
    assert!(
        matches!(
            error.kind(),
            ErrorKind::LimitExceeded {
                allowed: limits::LIST_ELEMENTS,
                actual: 1001,
                ..
            }
        ),
        "{error}"
    );
    Ok(())
}
