//! Lookups of summaries.

use std::fmt;
use std::marker::PhantomData;

use table_core::manifest::Shape;
use table_core::model::{EdmType, EdmValue, Key};
use table_core::store::{Error, Result};
use table_core::typed::{Codec, Field, TableEntity};

use super::lookup::{Lookup, query};
use crate::entry::shared::Summary;

/// The number of entities of type `T` with a key, and the sums, minima and maxima that the index declares: the result of
/// [`Lookup::summary`].
pub struct SummaryOf<T> {
    index: &'static str,
    summary: Summary,
    of: PhantomData<fn() -> T>,
}

impl<T> SummaryOf<T> {
    /// The number of entities.
    pub const fn count(&self) -> i64 {
        self.summary.count
    }

    /// The sum of a field. An absent value counts as 0.
    ///
    /// # Errors
    /// The index does not add up the field.
    pub fn sum<V, C>(&self, field: Field<T, V, C>) -> Result<i64> {
        self.summary.sums.get(field.name()).copied().ok_or_else(|| {
            let (index, name) = (self.index, field.name());
            Error::invalid_declaration(format!(
                "the index '{index}' does not add up '{name}': name the field in `sum(…)` of its `shape`"
            ))
        })
    }

    /// The smallest value of a field; `None` if no entity has a value.
    ///
    /// # Errors
    /// The index does not keep the minimum of the field.
    pub fn min<V, C: Codec<V>>(&self, field: Field<T, V, C>) -> Result<Option<V>> {
        decoded::<V, C>(field.name(), self.summary.min(field.name())?)
    }

    /// The largest value of a field; `None` if no entity has a value.
    ///
    /// # Errors
    /// The index does not keep the maximum of the field.
    pub fn max<V, C: Codec<V>>(&self, field: Field<T, V, C>) -> Result<Option<V>> {
        decoded::<V, C>(field.name(), self.summary.max(field.name())?)
    }
}

/// Decodes an extreme of a summary as the type of its field.
fn decoded<V, C: Codec<V>>(name: &str, value: Option<EdmValue>) -> Result<Option<V>> {
    // A summary keeps an extreme as an integer without its width, which is read as `Int64`. A field of `Int32` needs its own type back.
    let value = value.map(|value| match value {
        EdmValue::Int64(wide) if C::TYPE == EdmType::Int32 => {
            i32::try_from(wide).map_or(EdmValue::Int64(wide), EdmValue::Int32)
        }
        other => other,
    });
    let read = value.map(|value| C::read(value.as_ref()));
    read.transpose()
        .map_err(|error| Error::invalid_value(name, error.to_string()))
}

impl<T> Clone for SummaryOf<T> {
    fn clone(&self) -> Self {
        Self {
            index: self.index,
            summary: self.summary.clone(),
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for SummaryOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummaryOf")
            .field("index", &self.index)
            .field("summary", &self.summary)
            .finish()
    }
}

/// Lookups in an index with `shape = summary(…)`.
impl<T: TableEntity, K> Lookup<T, T, K> {
    /// The numbers of all entities that the lookup names, together. 1 request for a whole key, otherwise 1 for each 1,000 keys. A minimum
    /// whose entities were deleted can cost more: see [`IndexedEntities::summary`](crate::index::IndexedEntities::summary).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// # use table_patterns::index::IndexOptions;
    /// # use table_patterns::Database;
    /// #[derive(Debug, TableEntity)]
    /// #[entity(type = "Employee")]
    /// #[index(office, row_key = "office_{office}", shape = summary(sum(salary), max(salary)))]
    /// struct Employee {
    ///     #[partition_key] department: String,
    ///     #[row_key] id: u32,
    ///     office: String,
    ///     salary: i64,
    /// }
    /// # let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
    /// # for (id, office, salary) in [(1, "Rome", 1000), (2, "Rome", 1200), (3, "Oslo", 900)] {
    /// #     employees.insert(&Employee { department: "Sales".into(), id, office: office.into(), salary }).await?;
    /// # }
    /// let rome = employees.by(Employee::by_office("Sales").office("Rome")).summary().await?;
    /// assert_eq!((rome.count(), rome.sum(Employee::SALARY)?), (2, 2200));
    /// let all = employees.by(Employee::by_office("Sales")).summary().await?;
    /// assert_eq!((all.count(), all.max(Employee::SALARY)?), (3, Some(1200)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The index keeps no summaries or is not readable; a key part cannot be encoded; a sum of all keys exceeds an Int64.
    pub async fn summary(&self) -> Result<SummaryOf<T>> {
        let (entities, entries) = (self.entities().await?, self.entries()?);
        let index = entries.index();
        let summary = if let Some(row) = entries.rows().as_single() {
            entities
                .summary(index, &Key::new(entries.partition().as_str(), row)?)
                .await?
        } else {
            let shape = T::SCHEMA
                .indexes
                .iter()
                .find(|known| known.name == index)
                .map(|known| &known.shape);
            let mut all = Summary::of_shape(shape.unwrap_or(&Shape::Row));
            for (_, summary) in entities.summaries(index, &query(&entries)).await? {
                all.add(&summary, 1)?;
            }
            all
        };
        Ok(SummaryOf {
            index,
            summary,
            of: PhantomData,
        })
    }

    /// The numbers of each key that the lookup names, in the order of the keys. 1 request for each 1,000 keys; more as for
    /// [`summary`](Self::summary).
    ///
    /// # Errors
    /// As for [`summary`](Self::summary).
    pub async fn summaries(&self) -> Result<Vec<(Key, SummaryOf<T>)>> {
        let (entities, entries) = (self.entities().await?, self.entries()?);
        let index = entries.index();
        let found = entities.summaries(index, &query(&entries)).await?;
        Ok(found
            .into_iter()
            .map(|(key, summary)| {
                (
                    key,
                    SummaryOf {
                        index,
                        summary,
                        of: PhantomData,
                    },
                )
            })
            .collect())
    }
}
