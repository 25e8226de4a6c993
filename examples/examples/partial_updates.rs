//! Merges a derived patch: only the set fields are sent, and the others stay unchanged.

use table_core::memory::MemoryStore;
use table_core::prelude::*;

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
    let devices = Table::<Device>::new(MemoryStore::new(), "Devices")?;
    devices.create_if_missing().await?;
    let device = Device { site: "roof".into(), number: 7, firmware: "1.0".into(), battery: 90, alarm: None };
    devices.insert(&device).await?;
    let key = Device::key("roof", 7)?;

    // Two writers change different fields, in any version of the entity. No change is lost. 1 request each.
    devices.merge(&key, &Device::patch().battery(85).alarm("cover open"), IfMatch::Any).await?;
    devices.merge(&key, &Device::patch().firmware("1.1"), IfMatch::Any).await?;
    let read = devices.get_existing(&key).await?;
    assert_eq!(read.firmware.as_str(), "1.1");
    assert_eq!(read.battery, 85);
    assert_eq!(read.alarm.as_deref(), Some("cover open"));

    // A change that depends on a read value must require the version that was read.
    let before = devices.get_versioned(&key).await?.expect("the device is there");
    devices.merge(&key, &Device::patch().battery(before.battery - 1), before.etag.clone()).await?;
    let again = devices.merge(&key, &Device::patch().battery(before.battery - 1), before.etag).await;
    assert!(again.is_err_and(|error| error.is_precondition_failed()));

    // A merge cannot clear a field. An update reads, changes and replaces.
    let clear = |device: &mut Device| {
        device.alarm = None;
        Ok(())
    };
    let cleared = devices.update(&key, clear).await?;
    assert_eq!(cleared.alarm, None);
    assert_eq!(cleared.battery, 84);
    Ok(())
}
