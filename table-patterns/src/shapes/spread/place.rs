//! Buckets and stored keys. Stored data depends on their formulas, which therefore never change.

use std::marker::PhantomData;

use sha2::{Digest, Sha256};
use table_core::model::{Entity, Key};
use table_core::query::{Filter, Select};
use table_core::store::{Error, Result};
use table_core::typed::{FromEntity, Requirements, Spread, TableEntity};

/// The number of characters before the logical PartitionKey: four digits and the separator.
const PREFIX: usize = 5;

/// The bucket of a row.
pub(super) fn bucket(row: &str, spread: Spread) -> u32 {
    let hash: [u8; 32] = Sha256::new()
        .chain_update(spread.salt)
        .chain_update(row)
        .finalize()
        .into();
    // A hash has 32 bytes, so it has a first chunk of 8.
    let start = hash
        .first_chunk()
        .map_or(0, |bytes| u64::from_be_bytes(*bytes));
    // The remainder is less than the number of buckets, which is a `u32`.
    (start % u64::from(spread.buckets.max(1))) as u32
}

/// The stored key of an entity.
pub(super) fn stored_key(key: &Key, spread: Spread) -> Result<Key> {
    Key::new(
        stored_partition(key.partition(), bucket(key.row(), spread)),
        key.row(),
    )
}

/// The stored PartitionKey of a bucket.
pub(super) fn stored_partition(partition: &str, bucket: u32) -> String {
    format!("{bucket:04}_{partition}")
}

/// The logical key of a stored key; `None` if the stored key has no bucket.
pub(super) fn logical_key(key: &Key) -> Option<Key> {
    let (prefix, partition) = key.partition().split_at_checked(PREFIX)?;
    let digits = prefix.strip_suffix('_')?;
    digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| Key::new(partition, key.row()).ok())?
}

/// The mark on a row that is being moved to another bucket. Readers ignore the mark; writers wait.
pub(super) const MOVING: &str = "SpreadMoving";

/// A row of a [`SpreadTable`](super::SpreadTable), with its logical key.
#[derive(Debug)]
pub struct SpreadRow<T> {
    pub(super) entity: Entity,
    /// The stored PartitionKey.
    pub(super) partition: String,
    of: PhantomData<fn() -> T>,
}

impl<T: TableEntity> SpreadRow<T> {
    /// Converts the row to its value.
    ///
    /// # Errors
    /// The row is not a `T`.
    pub fn decode(mut self) -> Result<T> {
        self.entity.properties_mut().remove(MOVING);
        T::from_entity(self.entity)
    }
}

impl<T: TableEntity> FromEntity for SpreadRow<T> {
    fn select() -> Option<Select> {
        T::select()
    }

    fn type_filter() -> Option<Filter> {
        T::type_filter()
    }

    fn requirements() -> Requirements {
        Requirements {
            spread: None,
            ..T::requirements()
        }
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        let partition = entity.key().partition().to_owned();
        let key = logical_key(entity.key()).ok_or_else(|| {
            let expected = "a bucket before the key, as in `0007_Sales`";
            Error::decode(
                T::SCHEMA.rust_name,
                entity.key(),
                "PartitionKey",
                expected,
                &*partition,
            )
        })?;
        Ok(Self {
            entity: entity.with_key(key),
            partition,
            of: PhantomData,
        })
    }
}

/// Whether a stored row is being moved to another bucket.
pub(crate) fn is_moving(row: &Entity) -> bool {
    row.get(MOVING).is_some()
}

impl<T> SpreadRow<T> {
    /// Whether a migration has begun to move the row.
    pub(super) fn is_moving(&self) -> bool {
        is_moving(&self.entity)
    }
}

#[cfg(test)]
mod tests {
    use super::{bucket, logical_key, stored_key};
    use table_core::model::Key;
    use table_core::typed::Spread;

    /// Computed in Python: `int.from_bytes(hashlib.sha256(row.encode()).digest()[:8]) % 16`.
    #[test]
    fn buckets_follow_the_documented_formula() {
        let rows = ["", "a", "000001", "2013-01-01_1545_EWR", "\u{E4}"];
        assert_eq!(rows.map(|row| bucket(row, 16.into())), [4, 10, 0, 15, 12]);
        let salted = Spread {
            buckets: 16,
            salt: "events",
        };
        assert_eq!(rows.map(|row| bucket(row, salted)), SALTED);
    }

    /// Computed in Python for `"events" + row`.
    const SALTED: [u32; 5] = [11, 9, 6, 9, 4];

    #[test]
    fn stored_keys_round_trip() {
        let key = Key::new("", "r").unwrap();
        assert_eq!(
            logical_key(&stored_key(&key, 7.into()).unwrap()),
            Some(key.clone())
        );
        assert_eq!(logical_key(&key), None);
        assert_eq!(logical_key(&Key::new("00a1_x", "r").unwrap()), None);
    }
}
