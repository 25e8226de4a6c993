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
    span.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_span_describes_the_operation_without_keys_or_values() {
    let store = traced(TraceKeys::Hidden).await;
    let (traces, _on) = record();
    store.write(&table(), insert("a")).await.unwrap();
    assert_eq!(
        fields(&traces.last_span()),
        "items=1 operation=insert outcome=ok span=table_operation table=Employees"
    );
    store.write(&table(), insert("a")).await.unwrap_err();
    assert_eq!(
        fields(&traces.last_span()),
        "error=entity_already_exists operation=insert outcome=not_applied span=table_operation table=Employees"
    );
    let query = Query::new().with_filter(Filter::eq("Name", "Kenneth"));
    store.query(&table(), &query, None).await.unwrap();
    assert_eq!(
        fields(&traces.last_span()),
        "items=1 operation=query outcome=ok path=table scan span=table_operation table=Employees"
    );
    store.list_tables(None, None).await.unwrap();
    assert_eq!(fields(&traces.last_span()), "items=1 operation=list_tables outcome=ok span=table_operation");
}

#[tokio::test]
async fn a_missing_entity_is_not_an_error_event() {
    let store = traced(TraceKeys::Hidden).await;
    let (traces, _on) = record();
    assert_eq!(store.get(&table(), &key("a"), None).await.unwrap(), None);
    assert_eq!(traces.last_span()["items"], "0");
    assert_eq!(traces.last_span()["outcome"], "ok");
    assert_eq!(traces.take(), [""; 0]);
}

#[tokio::test]
async fn keys_are_shown_if_enabled() {
    let store = traced(TraceKeys::Shown).await;
    let (traces, _on) = record();
    store.get(&table(), &key("a"), None).await.unwrap();
    assert_eq!(traces.last_span()["key"], "('Sales', 'a')");
    store.write(&table(), insert("b")).await.unwrap();
    assert_eq!(traces.last_span()["key"], "('Sales', 'b')");
}
