//! Parses answers with many items: the entities of a query, the names of tables.

use table_core::Result;
use table_core::model::{Entity, PageEntities, TableName};

use super::decode::{EntityParts, EntityReader};
use super::json::{self, Json};

/// Parses the entities of a page. They share buffers: see [`Entity::detached`].
///
/// # Errors
/// Fails if the bytes are not the JSON of a page, or if a value does not have its annotated type.
pub fn decode_entities(json: &[u8]) -> Result<Vec<Entity>> {
    let (mut entities, mut reader) = (PageEntities::new(), EntityReader::default());
    json::read(json, |document| {
        listing(document, |json| {
            let left = json.left();
            let EntityParts { partition, row, etag, timestamp, properties } = reader.read(json)?;
            let pushed = entities.push(partition, row, properties, etag, timestamp);
            pushed.map_err(|e| json.broken(e.to_string()))?;
            if entities.len() == 1 {
                // An estimate: the number of entities if all have the size of the first.
                entities.reserve(json.left() / (left - json.left()).max(1));
            }
            Ok(())
        })
    })?;
    Ok(entities.into_entities())
}

/// Parses a page of table names.
///
/// # Errors
/// Fails if the bytes are not the JSON of such a page, or if a name is not valid for a table.
pub fn decode_table_names(json: &[u8]) -> Result<Vec<TableName>> {
    let mut names = Vec::new();
    json::read(json, |document| {
        listing(document, |json| {
            names.push(table_name(json)?);
            Ok(())
        })
    })?;
    names.into_iter().map(TableName::new).collect()
}

/// `{"odata.metadata": …, "value": [item, …]}`.
fn listing<'a>(
    json: &mut Json<'a>,
    mut item: impl FnMut(&mut Json<'a>) -> json::Result<()>,
) -> json::Result<()> {
    let mut found = false;
    json.object(|json, name| {
        if name != "value" {
            return json.skip();
        }
        found = true;
        json.array(&mut item)
    })?;
    if found { Ok(()) } else { Err(json.broken("the listing has no `value`")) }
}

/// Reads the `TableName` of an item of a listing.
fn table_name(json: &mut Json<'_>) -> json::Result<String> {
    let mut table = None;
    json.object(|json, name| {
        if name != "TableName" {
            return json.skip();
        }
        table = Some(json.text()?.into_owned());
        Ok(())
    })?;
    table.ok_or_else(|| json.broken("the table has no `TableName`"))
}
