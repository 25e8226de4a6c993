//! Keys for the entities of a file that has none.

use std::sync::Arc;

use table_core::manifest::{Evaluator, IndexDefinition, KeyTemplate, Placement};
use table_core::model::{Entity, TableName};

use super::{PARTITION, ROW};
use crate::failure::{Failure, Result};

/// How keys are made from the columns of a file that has none.
#[derive(Clone, Debug)]
pub(crate) struct KeyTemplates(Option<Arc<Evaluator>>);

impl KeyTemplates {
    /// Parses the templates of PartitionKey and RowKey. Both are given, or neither.
    pub(crate) fn new(partition: Option<&str>, row: Option<&str>) -> Result<Self> {
        let (partition, row) = match (partition, row) {
            (None, None) => return Ok(Self(None)),
            (Some(partition), Some(row)) => (template(PARTITION, partition)?, template(ROW, row)?),
            _ => return Err(Failure::misuse("give both --partition-key and --row-key, or neither")),
        };
        // The library evaluates templates as the keys of an index. In another table no key is an entity's own.
        let table = TableName::new("Keys").map_err(Failure::misuse)?;
        let definition = IndexDefinition::keyed("key", Placement::OtherTable(table), Some(partition), row);
        Ok(Self(Some(Arc::new(definition.evaluator().map_err(Failure::misuse)?))))
    }

    /// Whether templates are given, so that the file needs no keys.
    pub(crate) const fn are_given(&self) -> bool {
        self.0.is_some()
    }

    /// Refuses a file of columns from which no key can be made.
    pub(crate) fn check(&self, has_key: bool) -> Result<()> {
        match has_key || self.are_given() {
            true => Ok(()),
            false => Err(Failure::misuse(
                "the file has no columns PartitionKey and RowKey: give --partition-key and --row-key, with {COLUMN} for values of columns",
            )),
        }
    }

    /// Gives an entity its key.
    pub(crate) fn apply(&self, entity: Entity) -> Result<Entity, String> {
        let Some(evaluator) = &self.0 else { return Ok(entity) };
        let keys = evaluator.entry_keys(&entity).map_err(|error| error.to_string())?;
        let key = keys.into_iter().next().ok_or("a column of the key templates is absent")?;
        Ok(entity.with_key(key))
    }
}

fn template(name: &str, text: &str) -> Result<KeyTemplate> {
    text.parse().map_err(|error| Failure::misuse(format!("the template of the {name}, {text:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_rows::json_file::entity_of;

    #[test]
    fn keys_are_written_as_the_library_writes_key_parts() {
        let keys =
            KeyTemplates::new(Some("{origin}"), Some("{time_hour:hour}_{carrier}_{flight:u32:04}")).unwrap();
        let line = r#"{"origin":"EWR","carrier":"UA","flight":15,"time_hour@odata.type":"Edm.DateTime","time_hour":"2013-01-01T10:00:00Z"}"#;
        let entity = entity_of(line, &keys).unwrap();
        assert_eq!(entity.key().partition(), "EWR");
        assert_eq!(entity.key().row(), "2013-01-01T10_UA_0015");
        assert!(entity_of(r#"{"origin":"EWR"}"#, &keys).unwrap_err().contains("absent"));
        assert!(KeyTemplates::new(Some("{origin}"), None).is_err());
    }
}
