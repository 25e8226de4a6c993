//! Storing a type that has only serde's traits, for example a type of another crate, without `#[derive(TableEntity)]`; and any entity
//! as JSON in the service's form.
//!
//! Cost: as for a derived type without `type`.

use serde::{Deserialize, Serialize};
use table_core::typed::{Serde, SerdeTable};
use table_patterns::prelude::*;

/// A type without table attributes, for example from another crate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Reading {
    sensor: String,
    number: u32,
    at: Ticks,
    values: Vec<f64>,
    comment: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    // Keys of a function are not checked at compile time: pad the numbers.
    let keys = |r: &Reading| Key::new(&r.sensor, format!("{:06}", r.number));
    let readings = SerdeTable::with_keys(MemoryStore::new(), "Readings", keys)?;
    readings.create_if_missing().await?;

    let at: Ticks = "2013-01-31T05:15:00Z".parse()?;
    let reading = Reading {
        sensor: "s1".to_owned(),
        number: 7,
        at,
        values: vec![1.5, 2.0],
        comment: None,
    };
    readings.insert(&reading).await?;
    let key = readings.key_of(&reading)?;
    assert_eq!(readings.get_existing(&key).await?, reading);

    // A time is an Edm.DateTime, so filters compare it. A list is JSON text.
    let later = readings
        .query()
        .partition(PartitionKey::new("s1")?)
        .raw_filter(Filter::ge("at", at));
    // The query returns `Serde<Reading>`, a wrapper that dereferences to `Reading`.
    assert_eq!(later.all().await?, [Serde(reading)]);

    let calibrated = |reading: &mut Reading| {
        reading.comment = Some("calibrated".to_owned());
        Ok(())
    };
    let updated = readings.update(&key, calibrated).await?;
    assert_eq!(updated.values, [1.5, 2.0]);
    readings
        .merge(
            &key,
            &serde_json::json!({ "comment": "checked" }),
            IfMatch::Any,
        )
        .await?;

    // Any entity is a serde value, in the JSON form of the service.
    let row = readings
        .as_table()
        .view::<Entity>()?
        .get_existing(&key)
        .await?;
    let json = serde_json::to_string(&row).expect("an entity has a JSON form");
    assert!(json.contains(r#""at@odata.type":"Edm.DateTime""#), "{json}");
    assert_eq!(
        serde_json::from_str::<Entity>(&json).expect("the same entity"),
        row
    );
    Ok(())
}
