//! Where an entity is: stable for ever.

use sha2::{Digest, Sha256};
use table_core::model::Key;
use table_core::store::Result;

/// Digits and the separator.
const PREFIX: usize = 5;

/// The bucket of a row.
pub(super) fn bucket(row: &str, buckets: u32) -> u32 {
    let hash: [u8; 32] = Sha256::digest(row).into();
    let start = hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    // The remainder is less than a `u32`.
    (start % u64::from(buckets.max(1))) as u32
}

/// The stored key of an entity.
pub(super) fn stored(key: &Key, buckets: u32) -> Result<Key> {
    Key::new(partition(key.partition(), bucket(key.row(), buckets)), key.row())
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

    /// Computed by others: `int.from_bytes(hashlib.sha256(row.encode()).digest()[:8]) % 16`.
    #[test]
    fn buckets_are_what_is_documented() {
        let buckets = ["", "a", "000001", "2013-01-01_1545_EWR", "\u{E4}"].map(|row| bucket(row, 16));
        assert_eq!(buckets, BUCKETS);
    }

    const BUCKETS: [u32; 5] = [4, 10, 0, 15, 12];

    #[test]
    fn keys_come_back() {
        let key = Key::new("", "r").unwrap();
        assert_eq!(logical(&stored(&key, 7).unwrap()), Some(key.clone()));
        assert_eq!(logical(&key), None);
        assert_eq!(logical(&Key::new("00a1_x", "r").unwrap()), None);
    }
}
