//! Any key is refused, or is the encoding of parts that write the same text again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_core::model::{Key, KeyBuilder, KeyParser, KeyPart, PartFormat, Reverse, Ticks};

const SIX: PartFormat = PartFormat {
    width: Some(6),
    ..PartFormat::PLAIN
};
const TO_UNDERSCORE: PartFormat = PartFormat {
    separator: Some('_'),
    ..PartFormat::PLAIN
};

/// Checks a key of one part.
fn one<P: KeyPart>(key: &Key, format: PartFormat) {
    let mut parser = KeyParser::row("Any", "{part}", key);
    let Ok(value) = parser.part::<P>("part", format) else {
        return;
    };
    if parser.finish().is_ok() {
        let builder = KeyBuilder::new("RowKey", "{part}").part("part", &value, format);
        assert_eq!(
            builder.expect("a parsed key can be written").finish(),
            key.row()
        );
    }
}

/// Checks a key of two parts with a separator.
fn two<P: KeyPart>(key: &Key) {
    let mut parser = KeyParser::row("Any", "{text}_{part}", key);
    let Ok(text) = parser.part::<String>("text", TO_UNDERSCORE) else {
        return;
    };
    let Ok(()) = parser.literal("_") else { return };
    let Ok(value) = parser.part::<P>("part", PartFormat::PLAIN) else {
        return;
    };
    if parser.finish().is_ok() {
        let builder = KeyBuilder::new("RowKey", "{text}_{part}").part("text", &text, TO_UNDERSCORE);
        let builder = builder.and_then(|b| b.literal("_").part("part", &value, PartFormat::PLAIN));
        assert_eq!(
            builder.expect("a parsed key can be written").finish(),
            key.row()
        );
    }
}

fuzz_target!(|row: &str| {
    let Ok(key) = Key::new("p", row) else { return };
    one::<String>(&key, PartFormat::PLAIN);
    one::<u64>(&key, PartFormat::PLAIN);
    one::<i32>(&key, PartFormat::PLAIN);
    one::<bool>(&key, PartFormat::PLAIN);
    one::<Ticks>(&key, PartFormat::PLAIN);
    one::<Reverse<Ticks>>(&key, PartFormat::PLAIN);
    one::<u32>(&key, SIX);
    one::<Reverse<u32>>(&key, SIX);
    two::<String>(&key);
    two::<u16>(&key);
    two::<Reverse<i64>>(&key);
});
