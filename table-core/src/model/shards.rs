use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};

/// Distributes the values of an index over partitions by a hash, so that a hot index has no hot partition.
///
/// The shard of a value is the XXH3 hash (64 bits, seed 0) of its UTF-8 bytes, modulo the number of shards.
/// It is the same on every platform and in every version.
///
/// ```
/// use table_core::model::Shards;
/// let shards = Shards::new(16)?;
/// assert_eq!(shards.partition("email_", "ken@contoso.com"), "email_06");
/// assert_eq!(shards.partitions("email_").len(), 16);
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards(u16);

impl Shards {
    /// Creates a distribution over `count` shards.
    ///
    /// # Errors
    /// Fails if `count` is not 1 to 1,000.
    pub fn new(count: u16) -> Result<Self> {
        if (1..=1000).contains(&count) {
            return Ok(Self(count));
        }
        Err(Error::invalid_argument(format!(
            "the number of shards is {count}; it must be 1 to 1000"
        )))
    }

    /// Returns the number of shards.
    pub const fn count(self) -> u16 {
        self.0
    }

    /// Returns the shard of a value, starting at 0.
    pub fn of(self, value: &str) -> u16 {
        // Smaller than the count, which is a u16.
        (xxh3_64(value.as_bytes()) % u64::from(self.0)) as u16
    }

    /// Returns the PartitionKey of a value's shard: the prefix and the shard number, padded to the digits of
    /// the last shard.
    pub fn partition(self, prefix: &str, value: &str) -> String {
        format!("{prefix}{}", self.text(self.of(value)))
    }

    /// Returns the PartitionKeys of all shards in order.
    pub fn partitions(self, prefix: &str) -> Vec<String> {
        (0..self.0)
            .map(|shard| format!("{prefix}{}", self.text(shard)))
            .collect()
    }

    pub(in crate::model) fn text(self, shard: u16) -> String {
        let width = (self.0 - 1).to_string().len();
        format!("{shard:0width$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shard_of_a_value_never_changes() {
        let shards = Shards::new(16).unwrap();
        // Computed by the reference implementation: XXH3_64bits("") = 2d06800538d394c2.
        assert_eq!(u64::from(shards.of("")), 0x2d06_8005_38d3_94c2 % 16);
        let mut sizes = [0; 16];
        (0..1600).for_each(|n| sizes[usize::from(shards.of(&format!("value {n}")))] += 1);
        assert!(
            sizes.iter().all(|size| (60..140).contains(size)),
            "{sizes:?}"
        );
        assert_eq!(
            Shards::new(11).unwrap().partitions("p").last().unwrap(),
            "p10"
        );
        assert!(Shards::new(0).is_err() && Shards::new(1001).is_err());
    }
}
