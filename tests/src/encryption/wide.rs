//! Wide entities: each of their rows is encrypted like other rows, and marks stay with their properties.

use std::sync::Arc;

use table_core::model::{Entity, Properties};
use table_core::prelude::*;
use table_core::store::TableStore;
use table_core::typed::KeyOf;
use table_patterns::wide::{WideEntities, WideTable};

use super::{TableViews, assert_hidden, key, text};
use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Patient", rename_all = "PascalCase")]
struct Patient {
    #[partition_key]
    ward: String,
    #[row_key]
    bed: u32,
    beats: i32,
    #[encrypt]
    diagnosis: String,
}

const SECRETS: [&str; 4] = ["secret-one", "secret-two", "secret-three", "secret-four"];

fn open(table: &TableViews) -> WideEntities {
    WideEntities::new(
        Arc::clone(&table.store) as Arc<dyn TableStore>,
        table.raw.name().clone(),
    )
}

fn patient(diagnosis: &str, numbers: usize) -> Entity {
    let plain = (0..numbers).fold(Entity::from(key("Ward", "7")), |entity, n| {
        entity.with(&format!("P{n:03}"), n as i32)
    });
    plain.with_encrypted("Diagnosis", diagnosis)
}

/// After every kind of write, a marked property is ciphertext in its row and is read back with its mark.
pub(crate) async fn wide_entities_stay_encrypted(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let wide = open(&table);
    let hidden = async |expected: &str, rows: usize| {
        let read = wide
            .get(&key("Ward", "7"))
            .await
            .expect("an answer")
            .expect("an entity");
        assert_eq!(read.get("Diagnosis"), text(expected));
        assert_eq!(read.rows(), rows);
        assert!(
            read.properties()
                .find("Diagnosis")
                .is_some_and(|p| p.is_encrypted())
        );
        assert_hidden(&table, &SECRETS).await;
        read
    };
    wide.insert(&patient(SECRETS[0], 10))
        .await
        .expect("a new entity");
    let read = hidden(SECRETS[0], 2).await;
    wide.set(&read, "Diagnosis", SECRETS[1])
        .await
        .expect("a property");
    hidden(SECRETS[1], 2).await;
    let change = |properties: &mut Properties| {
        properties.set("Diagnosis", SECRETS[2]);
        Ok(())
    };
    wide.update(&key("Ward", "7"), change)
        .await
        .expect("an update");
    hidden(SECRETS[2], 2).await;
    wide.upsert(&patient(SECRETS[3], 600))
        .await
        .expect("a larger one");
    let read = hidden(SECRETS[3], 4).await;
    let larger = (0..300).fold(read.value.clone(), |e, n| {
        e.with(&format!("Q{n:03}"), "x".repeat(4000))
    });
    wide.replace_stored(&read, &larger.with("Diagnosis", SECRETS[0]))
        .await
        .expect("a larger one yet");
    hidden(SECRETS[0], 6).await;
}

/// A struct in a wide table, and the same entity as a property list.
pub(crate) async fn wide_tables_stay_encrypted(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let store = Arc::clone(&table.store) as Arc<dyn TableStore>;
    let patients = WideTable::<Patient>::new(store, table.raw.name().clone()).expect("a table");
    let first = Patient {
        ward: "Ward".into(),
        bed: 7,
        beats: 60,
        diagnosis: SECRETS[0].into(),
    };
    patients.insert(&first).await.expect("a new entity");
    let at = Patient::key("Ward", 7_u32).expect("a key");
    let update = patients.update(&at, |patient| {
        patient.diagnosis = SECRETS[1].into();
        Ok(())
    });
    update.await.expect("an update");
    let bag = patients
        .entities()
        .get(&(&at).into_key())
        .await
        .expect("an answer")
        .expect("an entity");
    patients
        .entities()
        .set(&bag, "Diagnosis", SECRETS[2])
        .await
        .expect("a property");
    let read = patients
        .get(&at)
        .await
        .expect("an answer")
        .expect("an entity");
    assert_eq!(
        read.value,
        Patient {
            diagnosis: SECRETS[2].into(),
            ..first
        }
    );
    assert_hidden(&table, &SECRETS).await;
}

/// A writer that replaces the properties without the mark is refused, and nothing is written.
pub(crate) async fn wide_entities_replaced_without_marks_are_refused(harness: &Harness) {
    let table = TableViews::new(harness).await;
    open(&table)
        .insert(&patient(SECRETS[0], 3))
        .await
        .expect("a new entity");
    let fresh = TableViews::over(table.raw.clone(), super::keys(), |builder, _| builder);
    let forgets = |properties: &mut Properties| {
        *properties = properties
            .iter()
            .map(|p| (p.name().to_owned(), p.value().to_owned()))
            .collect();
        Ok(())
    };
    let error = open(&fresh)
        .update(&key("Ward", "7"), forgets)
        .await
        .expect_err("plaintext");
    assert!(error.to_string().contains("'Diagnosis'"), "{error}");
    let plain = Entity::from(key("Ward", "7")).with("Diagnosis", SECRETS[1]);
    open(&fresh).upsert(&plain).await.expect_err("plaintext");
    assert_hidden(&table, &SECRETS).await;
    let read = open(&table)
        .get(&key("Ward", "7"))
        .await
        .expect("an answer")
        .expect("an entity");
    assert_eq!(read.get("Diagnosis"), text(SECRETS[0]));
    assert_eq!(read.properties().len(), 4);
}
