//! `explain` names the declared index that has all results of a query, with the lookup and its cost.

use table_core::model::{Entity, Key, PartitionKey};
use table_core::query::{Filter, Query};
use table_core::typed::TableQuery;
use table_patterns::Database;
use table_patterns::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Payload, Placement, Trust,
};

use super::company::{Company, Employee, Surname, employee, with_badge, with_email};
use crate::Harness;

const REMOTE: &str = "; its entries follow the writes of entities";

/// The index of each typed query; no index where the lookup could have other results.
pub(crate) async fn typed_queries_name_the_index_that_has_their_results(h: &Harness) {
    let company = Company::open(h).await;
    let all = || company.employees.query();
    let sales = || all().partition(Employee::partition("Sales").expect("a legal key"));
    let kwok = || Employee::LAST_NAME.eq("Kwok");
    let email = "index email: the query fixes PartitionKey, Email of its key 'email_{Email:text}'; \
                 table.by(Employee::by_email(..)) costs 1 request";
    let badge = "index badge: the query fixes Badge of its key 'badge_{Badge:u64:04} badge'; table.by(Employee::by_badge(..)) costs";
    let surname = |fixed: &str| {
        format!(
            "index surname: the query fixes {fixed} of its key 'surname_{{LastName:text}} {{Hired:u64:04}}_{{@department:text}}_{{@id:u64:06}}'; \
             table.by(Employee::by_surname(..)) costs 1 request for each page of entries, and 1 for each entity"
        )
    };
    let expected = [
        (sales().filter(Employee::EMAIL.eq("k@x")), Some(email.to_owned())),
        (
            sales().filter(Employee::EMAIL.eq("k@x")).limit(1),
            Some(email.to_owned()),
        ),
        (
            sales().filter(Employee::EMAIL.starts_with("k")),
            Some(
                "index email: the query fixes PartitionKey, the start of Email of its key 'email_{Email:text}'; \
                 table.by(Employee::by_email(..)) costs 1 request for each page of entries"
                    .to_owned(),
            ),
        ),
        (
            all().filter(Employee::BADGE.eq(7u32)),
            Some(format!("{badge} 2 requests{REMOTE}")),
        ),
        (
            all().filter(Employee::BADGE.exact_width().eq(7u32)),
            Some(format!(
                "{badge} 2 requests; keep the results that match Badge eq 7L{REMOTE}"
            )),
        ),
        (
            sales().filter(Employee::BADGE.eq(7u32)),
            Some(format!(
                "{badge} 2 requests; keep the results that match PartitionKey eq 'Sales'{REMOTE}"
            )),
        ),
        (
            all().filter(kwok()),
            Some(format!("{}{REMOTE}", surname("LastName"))),
        ),
        (
            all().filter(kwok().and(Employee::HIRED.ge(2002u32)).and(Employee::HIRED.lt(2004u32))),
            Some(format!("{}{REMOTE}", surname("LastName, a range of Hired"))),
        ),
        (
            sales().filter(kwok().and(Employee::HIRED.eq(2002u32))),
            Some(format!("{}{REMOTE}", surname("LastName, Hired, department"))),
        ),
        (
            all().filter(kwok().and(Employee::EMAIL.eq("k@x"))),
            Some(format!(
                "{}; keep the results that match Email eq 'k@x'{REMOTE}",
                surname("LastName")
            )),
        ),
        (
            all().filter(kwok()).limit(3).in_any_order(),
            Some(format!("{}{REMOTE}", surname("LastName"))),
        ),
        (
            sales()
                .rows(Employee::row_prefix().id(7u32))
                .filter(Employee::EMAIL.eq("k@x")),
            Some(format!(
                "{email}; keep the results that match RowKey ge 'empid_000007' and RowKey lt 'empid_000008'"
            )),
        ),
        // The first entries are not the first entities.
        (all().filter(kwok()).limit(3), None),
        (all().filter(kwok()).require_order(), None),
        // The entries of one partition or of one value are not all entries.
        (all().filter(Employee::EMAIL.eq("k@x")), None),
        (all().filter(Employee::LAST_NAME.starts_with("Kw")), None),
        (all().filter(kwok().or(Employee::LAST_NAME.eq("Fujii"))), None),
        (all().filter(!kwok()), None),
        (sales().filter(!Employee::EMAIL.eq("k@x")), None),
        (sales().filter(Employee::EMAIL.is_absent()), None),
        // A lookup returns no entries.
        (all().filter(kwok()).with_index_entries(), None),
        (all().filter(kwok()).with_system_rows(), None),
        // The keys lead to the results as well.
        (sales(), None),
        (all(), None),
        (
            sales()
                .raw_filter(Filter::eq(Filter::ROW_KEY, "empid_000007"))
                .filter(Employee::EMAIL.eq("k@x")),
            None,
        ),
    ];
    for (query, expected) in expected {
        let explanation = query.explain().expect("a query that can be sent");
        let is_named = explanation.to_string().contains("\nindex ");
        assert_eq!(is_named, expected.is_some(), "{query:?}");
        assert_eq!(explanation.index, expected, "{query:?}");
    }
    let surnames: TableQuery<Employee, Surname> = all().filter(Employee::BADGE.eq(7u32)).project();
    let explained = surnames.explain().expect("a query that can be sent").index;
    assert_eq!(explained, Some(format!("{badge} 1 request{REMOTE}")));
    // The remaining condition needs a property that the entries do not have.
    let hired: TableQuery<Employee, Surname> = all()
        .filter(Employee::BADGE.eq(7u32).and(Employee::EMAIL.eq("k@x")))
        .project();
    let explained = hired.explain().expect("a query that can be sent").index;
    let left = "keep the results that match Email eq 'k@x'";
    assert_eq!(
        explained,
        Some(format!("{badge} 2 requests; {left}{REMOTE}"))
    );
}

/// The lookups that `explain` names have the results of their queries, with the requests that it says.
pub(crate) async fn the_named_lookup_has_the_results_at_the_named_cost(h: &Harness) {
    let company = Company::open(h).await;
    let others = [employee(2, "Fujii"), with_badge(3, 7), with_email(4, "k@x")];
    company
        .insert_all((10..13).map(|id| employee(id, "Kwok")))
        .await;
    company.insert_all(others).await;
    let employees = &company.employees;
    employees.flush().await;
    let sales = || Employee::partition("Sales").expect("a legal key");
    let ids = |mut found: Vec<Employee>| {
        found.sort_by_key(|e| e.id);
        found.into_iter().map(|e| e.id).collect::<Vec<_>>()
    };
    let query = employees.query().filter(
        Employee::LAST_NAME
            .eq("Kwok")
            .and(Employee::HIRED.gt(2003u32)),
    );
    let lookup = employees.by(Employee::by_surname("Kwok").hired_in(2004..));
    let (looked_up, requests) = company.cost(lookup.all()).await;
    assert_eq!(requests, 1 + looked_up.len() as u64);
    assert_eq!(ids(looked_up), ids(query.all().await.expect("the query")));
    let query = employees.query().filter(Employee::BADGE.eq(7u32));
    let (looked_up, requests) = company
        .cost(employees.by(Employee::by_badge(7u32)).all())
        .await;
    assert_eq!(requests, 2);
    assert_eq!(ids(looked_up), ids(query.all().await.expect("the query")));
    let query = employees
        .query()
        .partition(sales())
        .filter(Employee::EMAIL.eq("k@x"));
    let lookup = employees.by(Employee::by_email("Sales").email("k@x"));
    let (looked_up, requests) = company.cost(lookup.all()).await;
    assert_eq!(requests, 1);
    assert_eq!(ids(looked_up), ids(query.all().await.expect("the query")));
}

/// The index of each query of a table whose indexes have no Rust type.
pub(crate) async fn dynamic_queries_name_the_index_that_has_their_results(h: &Harness) {
    let keyed = |name: &str, row: &str| {
        Index::keyed(name, Placement::SamePartition, "", row).expect("a template")
    };
    let indexes = vec![
        keyed("city", "city_{City:text}_{RowKey}"),
        keyed("age", "age_{Age}_{RowKey}"),
        keyed("size", "size_{Size:i64}")
            .unique_within_partition()
            .with_payload(Payload::Full),
        keyed("name", "name_{Name:text:lower}_{RowKey}"),
        keyed("open", "open_{Due:time}_{Owner:text}_{RowKey}")
            .with_condition("Status eq 'open'")
            .expect("a filter"),
        keyed("tag", "tag_{Tags[]:text}_{RowKey}"),
        keyed("skill", "skill_{Skill:text}_{RowKey}").with_discriminator("Kind", "person"),
    ];
    let table = h.table().await.name().clone();
    let store = h.store().clone();
    let people =
        IndexedEntities::open(store.clone(), table.clone(), indexes, IndexOptions::local())
            .await
            .expect("a new table");
    let rows = "costs 1 request for each page of entries, and 1 for each entity";
    let city = "index city: the query fixes PartitionKey, City of its key 'city_{City:text}_{RowKey:text}'; \
                entities.all(\"city\", &IndexQuery::partition(\"p\").prefix(\"city_oslo_\"), Trust::Entity)";
    let skill = "index skill: the query fixes PartitionKey, Skill of its key 'skill_{Skill:text}_{RowKey:text}'; \
                 entities.all(\"skill\", &IndexQuery::partition(\"p\").prefix(\"skill_rust_\"), Trust::Entity)";
    let name = "index name: the query fixes PartitionKey, Name of its key 'name_{Name:text:lower}_{RowKey:text}'; \
                entities.all(\"name\", &IndexQuery::partition(\"p\").prefix(\"name_ann_\"), Trust::Entity)";
    let expected = [
        ("PartitionKey eq 'p' and City eq 'oslo'", Some(format!("{city} {rows}"))),
        (
            "PartitionKey eq 'p' and City eq 'oslo' and Age gt 30",
            Some(format!("{city} {rows}; keep the results that match Age gt 30")),
        ),
        (
            "PartitionKey eq 'p' and City ge 'os' and City lt 'ot'",
            Some(format!(
                "{} {rows}",
                city.replace("Key, City", "Key, the start of City").replace("oslo_", "os")
            )),
        ),
        // Two names have one lower case.
        (
            "PartitionKey eq 'p' and Name eq 'Ann'",
            Some(format!("{name} {rows}; keep the results that match Name eq 'Ann'")),
        ),
        // Also an Int32 is in the index as the Int64 of its type.
        (
            "PartitionKey eq 'p' and Size eq 5",
            Some(
                "index size: the query fixes PartitionKey, Size of its key 'size_{Size:i64}'; \
                 entities.find(\"size\", &Key::new(\"p\", \"size_09223372036854775813\")?, Trust::Entry) costs 1 request"
                    .to_owned(),
            ),
        ),
        (
            "PartitionKey eq 'p' and Kind eq 'person' and Skill eq 'rust'",
            Some(format!("{skill} {rows}")),
        ),
        // The index has only persons.
        ("PartitionKey eq 'p' and Skill eq 'rust'", None),
        // 5 and 5L have different keys in an index without a type.
        ("PartitionKey eq 'p' and Age eq 5", None),
        // An entity without an owner has no entry.
        ("PartitionKey eq 'p' and Status eq 'open' and Due eq datetime'2024-01-01T00:00:00Z'", None),
        // The index has only open entities.
        (
            "PartitionKey eq 'p' and Due eq datetime'2024-01-01T00:00:00Z' and Owner eq 'ann'",
            None,
        ),
        ("PartitionKey eq 'p' and Tags eq 'a'", None),
        ("City eq 'oslo'", None),
        ("PartitionKey eq 'p' and (City eq 'oslo' or Age gt 30)", None),
        ("PartitionKey eq 'p' and not (City eq 'oslo')", None),
        ("PartitionKey eq 'p' and RowKey eq '7' and City eq 'oslo'", None),
    ];
    for (filter, expected) in expected {
        let query = Query::new().with_filter(filter.parse().expect("a filter"));
        assert_eq!(people.explain(&query).index, expected, "{filter}");
    }
    let open = "PartitionKey eq 'p' and Status eq 'open' and Due eq datetime'2024-01-01T00:00:00Z' and Owner ge 'a'";
    let query = Query::new().with_filter(open.parse().expect("a filter"));
    let text = people.explain(&query).index.expect("the index");
    assert!(
        text.starts_with("index open: the query fixes PartitionKey, Due of"),
        "{text}"
    );
    assert!(
        text.ends_with("; keep the results that match Owner ge 'a'"),
        "{text}"
    );
    for (id, city) in [("1", "oslo"), ("2", "oslobro"), ("3", "oslo")] {
        let entity = Entity::new("p", id)
            .expect("a legal key")
            .with("City", city);
        people.insert(entity).await.expect("a new entity");
    }
    let in_oslo = IndexQuery::partition("p").prefix("city_oslo_");
    let found = people
        .all("city", &in_oslo, Trust::Entity)
        .await
        .expect("entities");
    let keys: Vec<Key> = found.iter().map(|e| e.key().clone()).collect();
    let query = Database::new(store.clone())
        .view::<Entity>(table.clone())
        .expect("a table")
        .query()
        .partition(PartitionKey::new("p").expect("a legal key"))
        .raw_filter(Filter::eq("City", "oslo"));
    let queried = query.all().await.expect("entities");
    assert_eq!(
        keys,
        queried.iter().map(|e| e.key().clone()).collect::<Vec<_>>()
    );
    // An index that is not built has no entries yet.
    let late = keyed("level", "level_{Level:text}_{RowKey}");
    let with_late = IndexedEntities::open(store, table, vec![late], IndexOptions::local());
    let with_late = with_late.await.expect("the table");
    let level = "PartitionKey eq 'p' and Level eq 'a'"
        .parse()
        .expect("a filter");
    assert_eq!(
        with_late.explain(&Query::new().with_filter(level)).index,
        None
    );
}
