use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{PartitionKey, Ticks};
use table_core::store::Result;
use table_core::typed::{PlainTable, TableEntity, TableQuery};

use super::{CursorError, CursorKey, PageError, Pager, WebPage};
use crate::clock::{Clock, after};
use crate::tests::AlwaysFirstPage;

#[derive(Clone, Debug, PartialEq, TableEntity)]
struct Product {
    #[partition_key]
    category: String,
    #[row_key(format = "secret-{:04}")]
    number: u32,
}

/// A clock that the test sets.
#[derive(Clone, Debug)]
struct SetClock(Arc<Mutex<Ticks>>);

impl Clock for SetClock {
    fn now(&self) -> Ticks {
        *self.0.lock().unwrap()
    }
}

async fn products(count: u32) -> Result<(PlainTable<Product>, RequestMeter)> {
    let meter = RequestMeter::new();
    let table =
        PlainTable::<Product>::new(Metered::new(MemoryStore::new(), meter.clone()), "Products")?;
    table.create_if_missing().await?;
    for number in 0..count {
        table
            .insert(&Product {
                category: "tea".to_owned(),
                number,
            })
            .await?;
    }
    Ok((table, meter))
}

fn tea(table: &PlainTable<Product>) -> TableQuery<Product> {
    table
        .query()
        .partition(PartitionKey::new("tea").unwrap())
        .limit(10)
}

fn numbers(page: &WebPage<Product>) -> Vec<u32> {
    page.items.iter().map(|product| product.number).collect()
}

fn refusal(page: Result<WebPage<Product>, PageError>) -> CursorError {
    match page {
        Err(PageError::Cursor(error)) => error,
        other => panic!("a refused cursor, not {other:?}"),
    }
}

#[tokio::test]
async fn every_page_can_be_reached_from_every_other_page() -> std::result::Result<(), PageError> {
    let (table, meter) = products(395).await?;
    let (pager, query) = (Pager::new(CursorKey::new([1; 32])), tea(&table));
    let mut pages = vec![pager.page(&query, "", None).await?];
    while let Some(next) = &pages[pages.len() - 1].next {
        let (page, cost) = meter.measure(pager.page(&query, "", Some(next))).await;
        assert_eq!(cost.total(), 1);
        pages.push(page?);
    }
    assert_eq!(pages.len(), 40);
    assert_eq!(numbers(&pages[39]), (390..395).collect::<Vec<_>>());
    for (n, page) in pages.iter().enumerate() {
        assert_eq!(page.is_first, n == 0, "page {n}");
        assert_eq!(page.is_last, n == 39, "page {n}");
        assert_eq!(page.previous.is_none(), n == 0, "page {n}");
        assert_eq!(page.next.is_none(), n == 39, "page {n}");
        assert!(
            page.next.as_ref().is_none_or(|cursor| cursor.len() < 2_500),
            "page {n}"
        );
    }
    // Back from the end to the start. The first steps read one page each; steps to forgotten starts read more.
    let (mut page, mut total) = (pages[39].clone(), 0);
    for n in (0..39).rev() {
        let cursor = page.previous.clone().unwrap();
        let (back, cost) = meter.measure(pager.page(&query, "", Some(&cursor))).await;
        page = back?;
        assert_eq!(numbers(&page), numbers(&pages[n]), "page {n}");
        assert!(
            cost.total() == 1 || n < 32,
            "page {n}: {} requests",
            cost.total()
        );
        assert!(cost.total() <= 8, "page {n}: {} requests", cost.total());
        total += cost.total();
    }
    assert_eq!(total, 62, "the documented requests");
    assert!(page.is_first);
    Ok(())
}

#[tokio::test]
async fn each_mismatch_has_its_own_error_and_sends_no_request() -> std::result::Result<(), PageError>
{
    let (table, meter) = products(25).await?;
    let clock = SetClock(Arc::new(Mutex::new(Ticks::now())));
    let pager = Pager::new(CursorKey::new([1; 32])).with_clock(Arc::new(clock.clone()));
    let pager = pager.valid_for(Duration::from_secs(60));
    let query = tea(&table);
    let next = pager.page(&query, "ann", None).await?.next.unwrap();
    meter.reset();

    let all = table.query().limit(10);
    assert_eq!(
        refusal(pager.page(&all, "ann", Some(&next)).await),
        CursorError::OfAnotherQuery
    );
    assert_eq!(
        refusal(pager.page(&query, "bob", Some(&next)).await),
        CursorError::OfAnotherUser
    );
    let other = Pager::new(CursorKey::new([2; 32]));
    assert_eq!(
        refusal(other.page(&query, "ann", Some(&next)).await),
        CursorError::UnknownKey
    );
    for text in ["", "nonsense", "%%%", &next[..20], &"A".repeat(40_000)] {
        assert_eq!(
            refusal(pager.page(&query, "ann", Some(text)).await),
            CursorError::Malformed,
            "{text:.20}"
        );
    }
    let sealed = URL_SAFE_NO_PAD.decode(&next).unwrap();
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        let refused = refusal(
            pager
                .page(&query, "ann", Some(&URL_SAFE_NO_PAD.encode(changed)))
                .await,
        );
        let expected = match at {
            0 => CursorError::Malformed,
            1..=4 => CursorError::UnknownKey,
            _ => CursorError::Changed,
        };
        assert_eq!(refused, expected, "byte {at}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
    *clock.0.lock().unwrap() = after(clock.now(), Duration::from_secs(60));
    assert_eq!(
        refusal(pager.page(&query, "ann", Some(&next)).await),
        CursorError::Expired
    );
    assert_eq!(meter.snapshot().total(), 0);
    Ok(())
}

#[tokio::test]
async fn a_cursor_hides_the_keys_of_rows() -> std::result::Result<(), PageError> {
    let (table, _) = products(25).await?;
    let pager = Pager::new(CursorKey::new([1; 32]));
    let next = pager.page(&tea(&table), "ann", None).await?.next.unwrap();
    let bytes = URL_SAFE_NO_PAD.decode(&next).unwrap();
    let continuation = tea(&table)
        .page(None)
        .await?
        .continuation
        .unwrap()
        .to_string();
    let holds = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(
        !holds(b"secret-")
            && !holds(b"tea")
            && !holds(b"ann")
            && !holds(&continuation.as_bytes()[..12])
    );
    assert!(!format!("{pager:?}").contains("1, 1"), "{pager:?}");
    Ok(())
}

#[tokio::test]
async fn the_newest_key_seals_and_earlier_keys_open() -> std::result::Result<(), PageError> {
    let (table, _) = products(25).await?;
    let query = tea(&table);
    let [old, new] = [[1; 32], [2; 32]].map(CursorKey::new);
    let before = Pager::new(old.clone());
    let during = Pager::new(new.clone()).with_earlier_key(old);
    let after = Pager::new(new);
    let first = before.page(&query, "", None).await?;
    let second = during.page(&query, "", first.next.as_deref()).await?;
    assert_eq!(numbers(&second), (10..20).collect::<Vec<_>>());
    assert_eq!(
        numbers(&after.page(&query, "", second.next.as_deref()).await?).len(),
        5
    );
    assert_eq!(
        refusal(after.page(&query, "", first.next.as_deref()).await),
        CursorError::UnknownKey
    );
    Ok(())
}

#[tokio::test]
async fn a_page_is_a_value_for_serde() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (table, _) = products(5).await?;
    let page = Pager::new(CursorKey::random()?)
        .page(&tea(&table), "", None)
        .await?;
    let json = serde_json::to_value(page.map(|product| product.number))?;
    let expected = serde_json::json!({
        "items": [0, 1, 2, 3, 4], "next": null, "previous": null, "isFirst": true, "isLast": true,
    });
    assert_eq!(json, expected);
    Ok(())
}

/// Rows that are removed between two requests end the pages earlier.
#[tokio::test]
async fn pages_that_are_gone_lead_to_the_last_page() -> std::result::Result<(), PageError> {
    let (table, _) = products(25).await?;
    let (pager, query) = (Pager::new(CursorKey::new([1; 32])), tea(&table));
    let second = pager
        .page(
            &query,
            "",
            pager.page(&query, "", None).await?.next.as_deref(),
        )
        .await?;
    table
        .query()
        .rows(Product::row_prefix().number(10)..)
        .delete()
        .await?
        .into_result()?;
    let third = pager.page(&query, "", second.next.as_deref()).await?;
    assert!(third.items.is_empty() && third.is_last);
    let back = pager.page(&query, "", third.previous.as_deref()).await?;
    assert!(back.items.is_empty() && back.is_last);
    let first = pager.page(&query, "", back.previous.as_deref()).await?;
    assert_eq!(first.items.len(), 10);
    Ok(())
}

/// The pager reads on until a page is not empty.
#[tokio::test]
async fn a_repeated_continuation_token_ends_a_page_with_an_error() -> Result<()> {
    let (table, _) = products(20).await?;
    let stuck = PlainTable::<Product>::new(
        AlwaysFirstPage::around(Arc::clone(table.store()), 0),
        "Products",
    )?;
    let page = Pager::new(CursorKey::new([1; 32]))
        .page(&tea(&stuck), "", None)
        .await;
    let Err(PageError::Query(error)) = page else {
        panic!("{page:?}")
    };
    assert!(
        error.to_string().contains("repeated continuation"),
        "{error}"
    );
    Ok(())
}
