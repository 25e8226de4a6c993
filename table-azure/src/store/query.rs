use azure_core::http::Method;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Position, Query, Select};
use table_core::store::{OperationKind, check_entity, check_page, check_progress};
use table_core::{Result, engine};

use crate::endpoint::entity_path;
use crate::rest::{Answer, Call, Client, Subject};
use crate::wire;

impl Client {
    pub(super) async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let select = select.map(names);
        let address = self.endpoint.read_partition(&entity_path(table, key), Some(key.partition()));
        let url = address.with_some("$select", select.as_deref());
        let subject = Subject::Entity(table, key);
        let call = Call::new(OperationKind::Get, subject, Method::Get, url.into_url());
        match self.send(call).await {
            Ok(answer) => {
                let entity = wire::decode_entity(&answer.body).map_err(|e| answer.explain(e))?;
                check_entity(table, key, &entity)?;
                Ok(Some(entity))
            }
            Err(e) if e.is_entity_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub(super) async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        engine::check_query(&self.profile, query)?;
        let position = from.map(|from| from.position(&self.profile, table, query)).transpose()?;
        let filter = query.filter.as_ref().map(ToString::to_string);
        let top = query.top.map(|top| top.min(self.profile.page_size).to_string());
        let url = self
            .endpoint
            .read_partition(&format!("{table}()"), query.bounds().partition.as_single())
            .with_some("$filter", filter.as_deref())
            .with_some("$select", query.select.as_ref().map(names).as_deref())
            .with_some("$top", top.as_deref())
            .with_some("NextPartitionKey", position.map(|p| p.first.as_str()))
            .with_some("NextRowKey", position.and_then(|p| p.second.as_deref()));
        let call = Call::new(OperationKind::Query, Subject::Table(table), Method::Get, url.into_url());
        let answer = self.send(call).await?;
        let items = wire::decode_entities(&answer.body).map_err(|e| answer.explain(e))?;
        check_page(&self.profile, table, query, &items)?;
        let continued = |position| Continuation::new(&self.profile, table, query, position);
        let continuation = next(&answer)?.map(continued);
        // A service that returns the same token for ever would keep the program in a loop of paid requests.
        check_progress(from, continuation.as_ref())?;
        Ok(Page { items, continuation })
    }
}

/// Returns the selected names, with the properties that every answer needs.
fn names(select: &Select) -> String {
    // `$select` leaves out the keys too, and an entity without keys cannot be read. The ETag is an annotation and is
    // always there.
    let names: Vec<_> = ["PartitionKey", "RowKey", "Timestamp"].into_iter().chain(select.names()).collect();
    Select::new(names).names().collect::<Vec<_>>().join(",")
}

fn next(answer: &Answer) -> Result<Option<Position>> {
    let first = answer.continuation("x-ms-continuation-nextpartitionkey")?;
    let second = answer.continuation("x-ms-continuation-nextrowkey")?;
    Ok(first.map(|first| Position { first, second }))
}
