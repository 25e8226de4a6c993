//! Partial updates: a merge sends only the fields that the patch sets; the stored entity keeps the others.
//!
//! Cost: 1 request under an ETag; in any version 2 for a type with `type` or `version`, 1 for other types.

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;

#[derive(Debug, TableEntity)]
#[entity(type = "Device", rename_all = "PascalCase")]
struct Device {
    #[partition_key]
    site: String,
    #[row_key]
    number: u32,
    firmware: String,
    battery: i32,
    alarm: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let db = Database::new(Metered::new(MemoryStore::new(), meter.clone()));
    let devices = db.table::<Device>("Devices")?;
    devices.declare().await?;
    let device = Device {
        site: "roof".to_owned(),
        number: 7,
        firmware: "1.0".to_owned(),
        battery: 90,
        alarm: None,
    };
    devices.insert(&device).await?;
    let key = Device::key("roof", 7)?;

    // Two writers change different fields, in whatever version the entity has: neither change is lost. 2 requests each, because the
    // merge first checks the type of the stored entity.
    let battery = Device::patch().battery(85).alarm("cover open");
    let (merged, cost) = meter
        .measure(devices.merge(&key, &battery, IfMatch::Any))
        .await;
    merged?;
    assert_eq!(cost.total(), 2);
    devices
        .merge(&key, &Device::patch().firmware("1.1"), IfMatch::Any)
        .await?;
    let read = devices.get_existing(&key).await?;
    assert_eq!(read.firmware, "1.1");
    assert_eq!(read.battery, 85);
    assert_eq!(read.alarm.as_deref(), Some("cover open"));

    // A change that depends on a read value must require the version that was read: 1 request.
    let before = devices.get_existing_stored(&key).await?;
    let drained = Device::patch().battery(before.battery - 1);
    let (merged, cost) = meter
        .measure(devices.merge(&key, &drained, before.etag()))
        .await;
    merged?;
    assert_eq!(cost.total(), 1);
    // The same ETag again: another write came first, so this merge is refused.
    let again = devices.merge(&key, &drained, before.etag()).await;
    assert!(again.is_err_and(|error| error.is_precondition_failed()));

    // A merge cannot remove a property: `None` in a patch means "not set". `update` reads, changes and replaces: 2 requests.
    let clear = |device: &mut Device| {
        device.alarm = None;
        Ok(())
    };
    let cleared = devices.update(&key, clear).await?;
    assert_eq!(cleared.alarm, None);
    assert_eq!(cleared.battery, 84);
    Ok(())
}
