use super::recorder::record;
use super::{insert, key, table};
use crate::adapter::{TraceKeys, Traced};
use crate::memory::MemoryStore;
use crate::query::{Filter, Query};
use crate::store::TableStore;

async fn traced(keys: TraceKeys) -> Traced<MemoryStore> {
    let store = Traced::new(MemoryStore::new(), keys);
    store.create_table(&table()).await.unwrap();
    store
}

fn fields(span: &std::collections::BTreeMap<&'static str, String>) -> String {
    span.iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test]
async fn a_span_describes_the_operation_without_keys_or_values() {
    let store = traced(TraceKeys::Hidden).await;
    let (traces, _on) = record();
    store.write(&table(), insert("a")).await.unwrap();
    assert_eq!(
        fields(&traces.last_span()),
        "db.collection.name=Employees db.operation.name=insert db.system.name=table_store otel.kind=client otel.name=insert Employees \
         span=table_operation table.outcome=ok"
    );
    store.write(&table(), insert("a")).await.unwrap_err();
    assert_eq!(
        fields(&traces.last_span()),
        "db.collection.name=Employees db.operation.name=insert db.system.name=table_store error.type=entity_already_exists \
         otel.kind=client otel.name=insert Employees span=table_operation table.outcome=not_applied"
    );
    let query = Query::new().with_filter(Filter::eq("Name", "Kenneth"));
    store
        .query(&table(), &query, None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(
        fields(&traces.last_span()),
        "db.collection.name=Employees db.operation.name=query db.response.returned_rows=1 db.system.name=table_store otel.kind=client \
         otel.name=query Employees span=table_operation table.access_path=table scan table.outcome=ok"
    );
    store.list_tables(None, None).await.unwrap();
    assert_eq!(
        fields(&traces.last_span()),
        "db.operation.name=list_tables db.system.name=table_store otel.kind=client otel.name=list_tables span=table_operation \
         table.outcome=ok"
    );
    let absent = crate::model::TableName::new("Absent").unwrap();
    store.write(&absent, insert("a")).await.unwrap_err();
    assert_eq!(traces.last_span()["otel.status_code"], "ERROR");
}

#[tokio::test]
async fn a_missing_entity_is_not_an_error_event() {
    let store = traced(TraceKeys::Hidden).await;
    let (traces, _on) = record();
    assert_eq!(store.get(&table(), &key("a"), None).await.unwrap(), None);
    assert_eq!(traces.last_span()["db.response.returned_rows"], "0");
    assert_eq!(traces.last_span()["table.outcome"], "ok");
    assert_eq!(traces.take(), [""; 0]);
}

#[tokio::test]
async fn keys_are_shown_if_enabled() {
    let store = traced(TraceKeys::Shown).await;
    let (traces, _on) = record();
    store.get(&table(), &key("a"), None).await.unwrap();
    assert_eq!(traces.last_span()["table.key"], "('Sales', 'a')");
    store.write(&table(), insert("b")).await.unwrap();
    assert_eq!(traces.last_span()["table.key"], "('Sales', 'b')");
}
