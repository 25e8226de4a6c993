//! A summary: a row that counts entities, adds up properties, and keeps their minima and maxima.

use std::collections::BTreeMap;

use table_core::manifest::Shape;
use table_core::model::{EdmValue, Entity, Key, Properties, ValueRef};
use table_core::store::{Error, Operation, Result};

use super::extremes::{End, Extremes};
use super::{Merge, Prepared, SharedRows, put};
use crate::entry::Entry;
use crate::entry::row_properties::SUMMARY_COUNT;

const SUM: &str = "Sum";
const MIN: &str = "Min";
const MAX: &str = "Max";

/// The number of entities with a key, and the sums, minima and maxima of their properties.
///
/// A row has the Int64 properties `Count` and, for each sum, `SumSalary`. `MinSalary` is a text with the smallest values and the number
/// of entities of each, `1000*3,1100*1,+`; the sign at the end says that there may be more values. `MaxSalary` begins with the largest. A sum
/// outside of the range of Int64 is a text with the number: writes go on, and reads of the summary fail until it is within the range again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of entities.
    pub count: i64,
    /// The sums by property name; an absent value counts as 0.
    pub sums: BTreeMap<String, i64>,
    /// The sums outside of the range of Int64. A refused write would tell the writer of one entity about the sum of others.
    beyond: BTreeMap<String, i128>,
    minima: BTreeMap<String, Extremes>,
    maxima: BTreeMap<String, Extremes>,
}

/// As an object with `count`, `sums`, `minima` and `maxima`, by property name. A minimum is `null` if no entity has a value.
impl serde::Serialize for Summary {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Numbers<'a> {
            count: i64,
            sums: &'a BTreeMap<String, i64>,
            minima: BTreeMap<&'a str, Option<EdmValue>>,
            maxima: BTreeMap<&'a str, Option<EdmValue>>,
        }
        let minima = self
            .minima
            .keys()
            .map(|name| (&**name, self.min(name).ok().flatten()))
            .collect();
        let maxima = self
            .maxima
            .keys()
            .map(|name| (&**name, self.max(name).ok().flatten()))
            .collect();
        Numbers {
            count: self.count,
            sums: &self.sums,
            minima,
            maxima,
        }
        .serialize(serializer)
    }
}

impl Summary {
    /// The smallest value of a property; `None` if no entity has a value.
    ///
    /// # Errors
    /// The index does not keep the minimum of the property.
    pub fn min(&self, property: &str) -> Result<Option<EdmValue>> {
        extreme(&self.minima, property, "minimum")
    }

    /// The largest value of a property; `None` if no entity has a value.
    ///
    /// # Errors
    /// The index does not keep the maximum of the property.
    pub fn max(&self, property: &str) -> Result<Option<EdmValue>> {
        extreme(&self.maxima, property, "maximum")
    }

    /// The summary of no entity: zeros for the properties of a shape.
    pub(crate) fn of_shape(shape: &Shape) -> Self {
        let Shape::Summary {
            sums,
            minima,
            maxima,
        } = shape
        else {
            return Self::default();
        };
        let empty =
            |end| move |name: &table_core::manifest::Text| (name.to_string(), Extremes::new(end));
        Self {
            count: 0,
            beyond: BTreeMap::new(),
            sums: sums.iter().map(|name| (name.to_string(), 0)).collect(),
            minima: minima.iter().map(empty(End::Smallest)).collect(),
            maxima: maxima.iter().map(empty(End::Largest)).collect(),
        }
    }

    /// Reads the numbers of a row or entry.
    ///
    /// # Errors
    /// A number is not an Int64, or the text of a minimum or maximum cannot be read.
    pub(crate) fn read(key: &Key, properties: &Properties) -> Result<Self> {
        let mut summary = Self::default();
        for property in properties.iter() {
            let (name, value) = (property.name(), property.value());
            let damaged =
                |expected| Error::decode("summary", key, name, expected, value.edm_type().name());
            let number = || match value {
                ValueRef::Int64(value) => Ok(value),
                _ => Err(damaged("Edm.Int64")),
            };
            let extremes = |end| match value {
                ValueRef::String(text) => {
                    Extremes::parse(end, text).ok_or_else(|| damaged("values with their numbers"))
                }
                _ => Err(damaged("Edm.String")),
            };
            if name == SUMMARY_COUNT {
                summary.count = number()?;
            } else if let Some(field) = name.strip_prefix(SUM) {
                let sum = match value {
                    ValueRef::String(text) => text.parse().map_err(|_| damaged("a number"))?,
                    _ => i128::from(number()?),
                };
                summary.set_sum(field, sum);
            } else if let Some(field) = name.strip_prefix(MIN) {
                summary
                    .minima
                    .insert(field.to_owned(), extremes(End::Smallest)?);
            } else if let Some(field) = name.strip_prefix(MAX) {
                summary
                    .maxima
                    .insert(field.to_owned(), extremes(End::Largest)?);
            }
        }
        Ok(summary)
    }

    fn write(&self, into: &mut Properties) {
        into.set(SUMMARY_COUNT, self.count);
        for (field, sum) in &self.sums {
            into.set(&format!("{SUM}{field}"), *sum);
        }
        for (field, sum) in &self.beyond {
            into.set(&format!("{SUM}{field}"), sum.to_string());
        }
        for (prefix, all) in [(MIN, &self.minima), (MAX, &self.maxima)] {
            for (field, extremes) in all {
                into.set(&format!("{prefix}{field}"), extremes.to_string());
            }
        }
    }

    fn set_sum(&mut self, field: &str, sum: i128) {
        match i64::try_from(sum) {
            Ok(sum) => {
                self.beyond.remove(field);
                self.sums.insert(field.to_owned(), sum);
            }
            Err(_) => {
                self.sums.remove(field);
                self.beyond.insert(field.to_owned(), sum);
            }
        }
    }

    fn sum(&self, field: &str) -> i128 {
        match self.beyond.get(field) {
            Some(sum) => *sum,
            None => self.sums.get(field).copied().unwrap_or_default().into(),
        }
    }

    /// The summary, for a program that reads it.
    ///
    /// # Errors
    /// A sum is outside of the range of Int64.
    pub(crate) fn within_range(self, key: &Key) -> Result<Self> {
        match self.beyond.first_key_value() {
            None => Ok(self),
            Some((field, sum)) => Err(Error::invalid_value(
                field,
                format!(
                    "its sum in the summary {key} is {sum}, which is outside of the range of Edm.Int64: write smaller values, or divide the key"
                ),
            )),
        }
    }

    /// Adds another summary, multiplied by `sign`.
    ///
    /// # Errors
    /// A row that is not of this library has a number that no entities have.
    pub(crate) fn add(&mut self, other: &Self, sign: i64) -> Result<()> {
        let over =
            |name: &str| Error::invalid_value(name, "a summary has a number that no entities have");
        let count = other.count.checked_mul(sign);
        let count = count.and_then(|count| self.count.checked_add(count));
        self.count = count.ok_or_else(|| over(SUMMARY_COUNT))?;
        for field in other.sums.keys().chain(other.beyond.keys()) {
            let sum = other.sum(field).checked_mul(sign.into());
            let sum = sum.and_then(|sum| self.sum(field).checked_add(sum));
            self.set_sum(field, sum.ok_or_else(|| over(field))?);
        }
        let all = [
            (End::Smallest, &mut self.minima, &other.minima),
            (End::Largest, &mut self.maxima, &other.maxima),
        ];
        for (end, own, others) in all {
            for (field, extremes) in others {
                own.entry(field.clone())
                    .or_insert_with(|| Extremes::new(end))
                    .add(extremes, sign);
            }
        }
        Ok(())
    }

    /// Whether the row knows every minimum and maximum.
    pub(crate) fn is_complete(&self) -> bool {
        !self
            .minima
            .values()
            .chain(self.maxima.values())
            .any(Extremes::is_unknown)
    }

    /// Whether a row is right, by the recount of its entities. A row may know fewer values than a recount.
    pub(crate) fn agrees_with(&self, recounted: &Self) -> bool {
        let agree = |own: &BTreeMap<String, Extremes>, all: &BTreeMap<String, Extremes>| {
            own.len() == all.len()
                && all
                    .iter()
                    .all(|(field, all)| own.get(field).is_some_and(|own| own.agrees_with(all)))
        };
        self.count == recounted.count
            && self.sums == recounted.sums
            && self.beyond == recounted.beyond
            && agree(&self.minima, &recounted.minima)
            && agree(&self.maxima, &recounted.maxima)
    }

    fn is_zero(&self) -> bool {
        self.count == 0 && self.beyond.is_empty() && self.sums.values().all(|sum| *sum == 0)
    }

    /// The row of a summary.
    pub(crate) fn to_row(&self, key: Key, index: &str) -> Entity {
        let mut row = Entity::from(key).with(Entry::INDEX, index);
        self.write(row.properties_mut());
        row
    }
}

fn extreme(
    all: &BTreeMap<String, Extremes>,
    property: &str,
    what: &str,
) -> Result<Option<EdmValue>> {
    let missing = || {
        Error::invalid_declaration(format!(
            "the summary has no {what} of '{property}': add it to the definition of the index"
        ))
    };
    all.get(property).map(Extremes::extreme).ok_or_else(missing)
}

/// The contribution of an entity to its summary.
///
/// # Errors
/// A property to sum is not an integer, so its sum would not be exact; a property with a minimum or maximum is no number and no time;
/// or the property is encrypted, and the summary would expose it.
pub(crate) fn contribution(entity: &Entity, shape: &Shape) -> Result<Properties> {
    let mut summary = Summary {
        count: 1,
        ..Summary::of_shape(shape)
    };
    for field in shape.summarized() {
        if entity
            .properties()
            .find(field)
            .is_some_and(|p| p.is_encrypted())
        {
            let reason = "the property is encrypted, and a summary would store its sum, minimum or maximum as plaintext";
            return Err(Error::invalid_value(field, reason));
        }
    }
    for (field, sum) in &mut summary.sums {
        *sum = match entity.get(field) {
            None => 0,
            Some(ValueRef::Int32(value)) => i64::from(value),
            Some(ValueRef::Int64(value)) => value,
            Some(other) => return Err(refused(field, "adds integers", other)),
        };
    }
    for (end, all) in [
        (End::Smallest, &mut summary.minima),
        (End::Largest, &mut summary.maxima),
    ] {
        for (field, extremes) in all {
            let Some(value) = entity.get(field) else {
                continue;
            };
            let one = Extremes::of(end, value);
            *extremes =
                one.ok_or_else(|| refused(field, "compares finite numbers and times", value))?;
        }
    }
    let mut properties = Properties::new();
    summary.write(&mut properties);
    Ok(properties)
}

fn refused(field: &str, what: &str, value: ValueRef<'_>) -> Error {
    let found = value.edm_type().name();
    Error::invalid_value(
        field,
        format!("a summary {what}, and the property is an {found}"),
    )
}

pub(crate) async fn prepare(rows: SharedRows<'_>, merge: &Merge) -> Result<Prepared> {
    let row = rows.row(&merge.at, &merge.index).await?;
    let before = row
        .as_ref()
        .map(|row| Summary::read(row.key(), row.properties()))
        .transpose()?;
    let mut summary = before.clone().unwrap_or_default();
    for (entries, sign) in [(&merge.put, 1), (&merge.old, -1)] {
        for entry in entries {
            summary.add(&Summary::read(&entry.owner, &entry.properties)?, sign)?;
        }
    }
    let etag = row.as_ref().map(Entity::version).transpose()?;
    Ok(match etag {
        // An unchanged sum depends on no version of the row, so the group has no condition on the row. A minimum may come from a recount
        // of the entities under the version of the row: the row changes with every change of a value.
        _ if before.as_ref() == Some(&summary) && !merge.shape.has_extremes() => {
            Prepared::default()
        }
        None if summary.is_zero() => Prepared::default(),
        // The last entity of the key has gone. A missing row reads as zeros, so it need not stay.
        Some(etag) if summary.is_zero() => {
            Prepared::one(Operation::Delete(merge.at.key.clone(), etag))
        }
        etag => Prepared::one(put(
            summary.to_row(merge.at.key.clone(), &merge.index),
            etag,
        )),
    })
}
