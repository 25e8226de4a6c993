//! Where an entity is: stable for ever.

use sha2::{Digest, Sha256};
use table_core::model::Key;
use table_core::store::Result;
use table_core::typed::Spread;

/// Digits and the separator.
const PREFIX: usize = 5;

/// The bucket of a row.
pub(super) fn bucket(row: &str, spread: Spread) -> u32 {
    let hash: [u8; 32] = Sha256::new().chain_update(spread.salt).chain_update(row).finalize().into();
    let start = hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    // The remainder is less than a `u32`.
    (start % u64::from(spread.buckets.max(1))) as u32
}

/// The stored key of an entity.
pub(super) fn stored(key: &Key, spread: Spread) -> Result<Key> {
    Key::new(partition(key.partition(), bucket(key.row(), spread)), key.row())
}

/// The stored PartitionKey of a bucket.
pub(super) fn partition(partition: &str, bucket: u32) -> String {
    format!("{bucket:04}_{partition}")
}

/// The key as the program knows it; `None` if this is no key of a bucket.
pub(super) fn logical(key: &Key) -> Option<Key> {
    let (prefix, partition) = key.partition().split_at_checked(PREFIX)?;
    let digits = prefix.strip_suffix('_')?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| Key::new(partition, key.row()).ok())?
}

#[cfg(test)]
mod tests {
    use super::{bucket, logical, stored};
    use table_core::model::Key;
    use table_core::typed::Spread;

    /// Computed by others: `int.from_bytes(hashlib.sha256(row.encode()).digest()[:8]) % 16`.
    #[test]
    fn buckets_are_what_is_documented() {
        let rows = ["", "a", "000001", "2013-01-01_1545_EWR", "\u{E4}"];
        assert_eq!(rows.map(|row| bucket(row, 16.into())), [4, 10, 0, 15, 12]);
        let salted = Spread { buckets: 16, salt: "events" };
        assert_eq!(rows.map(|row| bucket(row, salted)), SALTED);
    }

    /// The same of `"events" + row`.
    const SALTED: [u32; 5] = [11, 9, 6, 9, 4];

    #[test]
    fn keys_come_back() {
        let key = Key::new("", "r").unwrap();
        assert_eq!(logical(&stored(&key, 7.into()).unwrap()), Some(key.clone()));
        assert_eq!(logical(&key), None);
        assert_eq!(logical(&Key::new("00a1_x", "r").unwrap()), None);
    }
}
