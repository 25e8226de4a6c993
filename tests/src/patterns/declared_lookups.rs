//! Declared indexes: lookups by keys.

use std::sync::Arc;

use crate::open_table;
use futures_util::TryStreamExt;
use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::Database;
use table_patterns::index::IndexOptions;
use table_patterns::journal::Clearing;

use super::company::{Company, Employee, Id, Surname, employee, key, with_badge};
use crate::Harness;

/// A lookup selects entries by parts of a key, by ranges and by prefixes.
pub(crate) async fn lookups_select_by_prefixes_and_ranges(h: &Harness) {
    let company = Company::open(h).await;
    company
        .insert_all((1..=5).map(|id| employee(id, "Kwok")))
        .await;
    let kwoks = || Employee::by_surname("Kwok");
    let ids = |found: Vec<Employee>| found.into_iter().map(|e| e.id).collect::<Vec<_>>();
    let employees = &company.employees;
    assert_eq!(
        ids(employees
            .by(kwoks().hired_in(2002..2004))
            .all()
            .await
            .unwrap()),
        [2, 3]
    );
    assert_eq!(
        ids(employees
            .by(kwoks().hired_in(2002..=2004))
            .all()
            .await
            .unwrap()),
        [2, 3, 4]
    );
    assert_eq!(
        ids(employees.by(kwoks().hired_in(2004..)).all().await.unwrap()),
        [4, 5]
    );
    assert_eq!(
        ids(employees.by(kwoks().hired(2003u32)).all().await.unwrap()),
        [3]
    );
    assert_eq!(
        ids(employees
            .by(kwoks().hired(2003u32).department_starting("Sa"))
            .all()
            .await
            .unwrap()),
        [3]
    );
    let (late, early) = (2004, 2002);
    assert!(
        employees
            .by(kwoks().hired_in(late..early))
            .all()
            .await
            .unwrap()
            .is_empty()
    );
    let key = kwoks().hired(2003u32).department("Sales").id(3u32);
    assert_eq!(
        employees.by(key).first().await.unwrap().map(|e| e.id),
        Some(3)
    );
    let none = kwoks().hired(1999u32).department("Sales");
    assert_eq!(employees.by(none).first().await.unwrap(), None);
}

/// Pages, streams, limits and counts of a lookup, with their requests.
pub(crate) async fn lookups_return_pages(h: &Harness) {
    let company = Company::open(h).await;
    company
        .insert_all((1..=5).map(|id| employee(id, "Kwok")))
        .await;
    let kwoks = company
        .employees
        .by(Employee::by_surname("Kwok"))
        .page_size(2);
    let mut from = None;
    let mut pages = Vec::new();
    loop {
        let (page, requests) = company.cost(kwoks.page(from.as_ref())).await;
        assert_eq!(
            requests,
            1 + page.items.len() as u64,
            "a page of entries, and its references"
        );
        pages.push(page.items.iter().map(|e| e.id).collect::<Vec<_>>());
        from = page.continuation;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(pages.concat(), [1, 2, 3, 4, 5]);
    assert!(pages.iter().all(|page| page.len() <= 2));
    let streamed: Vec<Employee> = kwoks.stream().try_collect().await.expect("all of them");
    assert_eq!(streamed.len(), 5);
    // A stream owns what it needs: it outlives the lookup and the handle of the table.
    let owned = {
        let employees = company.employees.clone();
        employees.by(Employee::by_surname("Kwok")).stream()
    };
    let collected = tokio::spawn(owned.try_collect::<Vec<Employee>>())
        .await
        .expect("no panic");
    assert_eq!(collected.expect("all of them"), streamed);
    let three = company.employees.by(Employee::by_surname("Kwok")).limit(3);
    let page = three.page(None).await.expect("a page");
    let rest = three
        .page(page.continuation.as_ref())
        .await
        .expect("the rest");
    assert_eq!(
        page.items.len(),
        3,
        "a limit bounds the page, and the page has a continuation"
    );
    assert_eq!(
        rest.items.len(),
        2,
        "a limit bounds the page, and the page has a continuation"
    );
    assert_eq!(
        rest.continuation, None,
        "a limit bounds the page, and the page has a continuation"
    );
    assert_eq!(three.all().await.expect("three").len(), 3);
    assert_eq!(three.count().await.expect("a count"), 3);
    assert_eq!(
        three.first().await.expect("the first").map(|e| e.id),
        Some(1)
    );
    let none = three.limit(0);
    assert_eq!(
        none.first().await.expect("no entity"),
        None,
        "a limit of 0 selects no entity"
    );
    let (count, requests) = company
        .cost(company.employees.by(Employee::by_surname("Kwok")).count())
        .await;
    assert_eq!(count, 5, "a count reads entries and follows no reference");
    assert_eq!(
        requests, 1,
        "a count reads entries and follows no reference"
    );
}

/// People of a town, with a list of references for each street.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Person", rename_all = "PascalCase")]
#[index(street, row_key = "street_{street}_{house:03}", shape = list)]
struct Person {
    #[partition_key]
    town: String,
    #[row_key(format = "person_{:04}")]
    id: u32,
    street: String,
    house: u32,
}

/// A limit bounds the references that a lookup follows, within one list and across lists.
pub(crate) async fn a_limit_bounds_the_references_of_lists(h: &Harness) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
    let table = h.unused_name();
    let people = open_table::<Person>(
        store.clone(),
        table.clone(),
        IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
    )
    .await;
    let people = people.expect("a new table");
    for id in 0..10 {
        let (town, street) = ("oslo".to_owned(), "main".to_owned());
        people
            .insert(&Person {
                town,
                id,
                street,
                house: id % 2,
            })
            .await
            .expect("a new person");
    }
    let cost = |before: u64| meter.total() - before;
    let ids = |found: Vec<Person>| found.into_iter().map(|p| p.id).collect::<Vec<_>>();
    let list = || people.by(Person::by_street("oslo").street("main").house(0u32));

    let before = meter.total();
    let page = list().limit(3).page(None).await.expect("a page");
    assert_eq!(ids(page.items), [0, 2, 4]);
    assert_eq!(cost(before), 1 + 3, "the list, three references");
    let rest = list()
        .limit(3)
        .page(page.continuation.as_ref())
        .await
        .expect("the rest of the list");
    assert_eq!(ids(rest.items), vec![6, 8]);
    assert_eq!(rest.continuation, None);
    let before = meter.total();
    assert_eq!(ids(list().limit(3).all().await.expect("three")), [0, 2, 4]);
    assert_eq!(cost(before), 1 + 3);

    let lists = people.by(Person::by_street("oslo").street("main")).limit(7);
    let before = meter.total();
    assert_eq!(
        ids(lists.all().await.expect("seven")),
        [0, 2, 4, 6, 8, 1, 3]
    );
    assert_eq!(
        cost(before),
        1 + 7,
        "both lists in one page, their references"
    );
    for size in 1..12 {
        let (mut paged, mut from) = (Vec::new(), None);
        loop {
            let of_street = people
                .by(Person::by_street("oslo").street("main"))
                .limit(size);
            let page = of_street.page(from.as_ref()).await.expect("a page");
            assert!(page.items.len() <= size);
            paged.extend(ids(page.items));
            // A web client sends the continuation token back as text.
            from = page
                .continuation
                .map(|c| c.to_string().parse().expect("a continuation"));
            if from.is_none() {
                break;
            }
        }
        assert_eq!(paged, [0, 2, 4, 6, 8, 1, 3, 5, 7, 9], "pages of {size}");
    }

    // A writer left this reference: it removed the entity and crashed before it removed the reference.
    let gone = Person::key("oslo", 0u32).expect("a legal key").into_key();
    store
        .write(&table, Operation::Delete(gone, IfMatch::Any))
        .await
        .expect("a row");
    let before = meter.total();
    assert_eq!(
        list().first().await.expect("the first").map(|p| p.id),
        Some(2)
    );
    assert_eq!(
        cost(before),
        1 + 2,
        "the list, a reference too many, the first"
    );
    assert_eq!(ids(list().limit(2).all().await.expect("two")), [2, 4]);
}

/// A projection of properties that entries hold is read from the entries, by one request.
pub(crate) async fn projections_are_read_from_entries(h: &Harness) {
    let company = Company::open(h).await;
    company.insert_all([with_badge(1, 7)]).await;
    let badge = || company.employees.by(Employee::by_badge(7u32));
    let (name, requests) = company.cost(badge().project::<Surname>().get()).await;
    assert_eq!(
        name,
        Some(Surname {
            last_name: "Kwok".to_owned()
        })
    );
    assert_eq!(requests, 1);
    let (whole, requests) = company.cost(badge().get()).await;
    assert_eq!(
        whole.map(|e| e.hired),
        Some(2001),
        "the entries do not hold all properties"
    );
    assert_eq!(requests, 2, "the entries do not hold all properties");
    let (name, requests) = company
        .cost(badge().verified().project::<Surname>().get())
        .await;
    assert!(name.is_some());
    assert_eq!(requests, 2);
    let surname = company.employees.by(Employee::by_surname("Kwok"));
    let (ids, requests) = company.cost(surname.project::<Id>().all()).await;
    assert_eq!(
        ids,
        vec![Id { id: 1 }],
        "every entry holds the key of its entity"
    );
    assert_eq!(requests, 1, "every entry holds the key of its entity");
}

/// A program that opens a table for reading reads the manifest and writes nothing.
pub(crate) async fn a_reader_writes_nothing(h: &Harness) {
    let company = Company::open(h).await;
    company.insert_all([with_badge(1, 7)]).await;
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
    let table = company.employees.name().clone();
    let options = IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
    let reader = Database::with_options(store, options).table::<Employee>(table);
    let reader = reader.expect("a table");
    let found = reader
        .by(Employee::by_badge(7u32))
        .get()
        .await
        .expect("an entry")
        .map(|e| e.id);
    assert_eq!(found, Some(1));
    assert_eq!(meter.total(), 1 + 2, "the manifest, the entry, the entity");
    reader.get_existing(key(1)).await.expect("the employee");
    assert_eq!(meter.total(), 1 + 2 + 1);
    let writes = meter.snapshot().sum(|request| request.path.is_none());
    assert_eq!(writes.requests, 0, "a reader does not register");
    let missing = Database::new(h.store().clone()).table::<Employee>(h.unused_name());
    let missing = missing.expect("a legal name");
    let found = missing.by(Employee::by_badge(7u32)).get().await;
    assert!(found.unwrap_err().is_table_not_found());
}

/// A lookup does not return an entity whose value differs from its entry.
pub(crate) async fn a_lookup_leaves_stale_entries_out(h: &Harness) {
    let company = Company::open(h).await;
    company.insert_all([employee(1, "Kwok")]).await;
    // A writer left this entry: it crashed between its commit and the update of the entry.
    let (store, table) = (company.employees.store(), company.employees.name());
    let entry = Key::new("surname_Kwok", "2001_Sales_000001").unwrap();
    let stale = store.get_existing(table, &entry).await.expect("the entry");
    let moved = stale.with_key(Key::new("surname_Lee", "2001_Sales_000001").unwrap());
    store
        .write(table, Operation::Insert(moved))
        .await
        .expect("a row");
    let lees = company.employees.by(Employee::by_surname("Lee"));
    assert!(
        lees.all()
            .await
            .expect("no entity with this surname")
            .is_empty()
    );
    assert_eq!(
        lees.first().await.expect("no entity with this surname"),
        None
    );
    assert_eq!(
        lees.count().await.expect("a count"),
        1,
        "a count of entries includes the stale entry"
    );
    assert_eq!(lees.verified().count().await.expect("a count"), 0);
}
