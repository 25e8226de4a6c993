use std::collections::BTreeMap;

use table_core::manifest::Text;
use table_core::model::{Entity, Key, Properties, ValueRef};
use table_core::store::{Error, Operation, Result};

use super::{Merge, Prepared, SharedRows, put, unchanged};
use crate::entry::Entry;

const COUNT: &str = "Count";

/// The number of entities with a key, and the sums of their properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of entities.
    pub count: i64,
    /// The sums by property name; an absent value counts as 0.
    pub sums: BTreeMap<String, i64>,
}

impl Summary {
    /// Reads the numbers of a row or entry.
    ///
    /// # Errors
    /// A number is not an Int64.
    pub(crate) fn read(key: &Key, properties: &Properties) -> Result<Self> {
        let mut summary = Self::default();
        for property in properties.iter() {
            let name = property.name();
            let field = name.strip_prefix("Sum");
            if field.is_none() && name != COUNT {
                continue;
            }
            let ValueRef::Int64(value) = property.value() else {
                let found = property.value().edm_type().name();
                return Err(Error::decode("summary", key, name, "Edm.Int64", found));
            };
            match field {
                Some(field) => drop(summary.sums.insert(field.to_owned(), value)),
                None => summary.count = value,
            }
        }
        Ok(summary)
    }

    fn write(&self, into: &mut Properties) {
        into.set(COUNT, self.count);
        for (field, sum) in &self.sums {
            into.set(&format!("Sum{field}"), *sum);
        }
    }

    /// Adds another summary, multiplied by `sign`.
    pub(crate) fn add(&mut self, other: &Self, sign: i64) -> Result<()> {
        let plus = |a: i64, b: i64| b.checked_mul(sign).and_then(|b| a.checked_add(b));
        let over = || {
            Error::invalid_request(
                "a sum of a summary exceeds the range of Edm.Int64: sum smaller values, or divide the key",
            )
        };
        self.count = plus(self.count, other.count).ok_or_else(over)?;
        for (field, value) in &other.sums {
            let sum = self.sums.entry(field.clone()).or_default();
            *sum = plus(*sum, *value).ok_or_else(over)?;
        }
        Ok(())
    }

    fn is_zero(&self) -> bool {
        self.count == 0 && self.sums.values().all(|sum| *sum == 0)
    }

    /// The row of a summary.
    pub(crate) fn to_row(&self, key: Key, index: &str) -> Entity {
        let mut row = Entity::from(key).with(Entry::INDEX, index);
        self.write(row.properties_mut());
        row
    }
}

/// Whether a row has the properties of a summary.
pub(crate) fn is_summary(row: &Entity) -> bool {
    matches!(row.get(COUNT), Some(ValueRef::Int64(_)))
}

/// The contribution of an entity to its summary.
///
/// # Errors
/// A property to sum is not an integer, so its sum would not be exact; or the property is encrypted, and the
/// sum would expose it.
pub(crate) fn contribution(entity: &Entity, sums: &[Text]) -> Result<Properties> {
    let mut summary = Summary { count: 1, sums: BTreeMap::new() };
    for field in sums {
        if entity.properties().find(field).is_some_and(|p| p.is_encrypted()) {
            let reason = "the property is encrypted, and a summary would store its sum as plaintext";
            return Err(Error::invalid_value(&**field, reason));
        }
        let value = match entity.get(field) {
            None => 0,
            Some(ValueRef::Int32(value)) => i64::from(value),
            Some(ValueRef::Int64(value)) => value,
            Some(other) => {
                let found = other.edm_type().name();
                let reason = format!("a summary adds integers, and the property is an {found}");
                return Err(Error::invalid_value(&**field, reason));
            }
        };
        summary.sums.insert(field.to_string(), value);
    }
    let mut properties = Properties::new();
    summary.write(&mut properties);
    Ok(properties)
}

pub(crate) async fn prepare(rows: SharedRows<'_>, merge: &Merge) -> Result<Prepared> {
    let row = rows.row(&merge.at, &merge.index).await?;
    let before = row.as_ref().map(|row| Summary::read(row.key(), row.properties())).transpose()?;
    let mut summary = before.clone().unwrap_or_default();
    for (entries, sign) in [(&merge.put, 1), (&merge.old, -1)] {
        for entry in entries {
            summary.add(&Summary::read(&entry.owner, &entry.properties)?, sign)?;
        }
    }
    let etag = row.as_ref().map(unchanged);
    Ok(match etag {
        // An unchanged sum depends on no version of the row, so the group has no condition on the row.
        _ if before.as_ref() == Some(&summary) => Prepared::default(),
        None if summary.is_zero() => Prepared::default(),
        Some(etag) if summary.is_zero() => Prepared::one(Operation::Delete(merge.at.key.clone(), etag)),
        etag => Prepared::one(put(summary.to_row(merge.at.key.clone(), &merge.index), etag)),
    })
}
