//! Any bytes are an error, or packed properties that can be read completely.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_core::model::Properties;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut properties) = Properties::from_packed(bytes.to_vec()) else {
        return;
    };
    let names: Vec<String> = properties.iter().map(|p| p.name().to_owned()).collect();
    assert_eq!(names.len(), properties.len());
    for name in &names {
        assert!(properties.get(name).is_some());
    }
    for name in &names {
        properties.remove(name);
    }
    assert!(properties.is_empty());
});
