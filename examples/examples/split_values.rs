//! A text that is longer than one property: it is stored in several properties of its row, and read as one. Choose it for text,
//! bytes or JSON of 64 KiB to 1 MiB; with `wide` up to 4 MiB. For larger values use `large_entities`.
//!
//! Cost: 1 request to write, 1 to read.

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;
use table_patterns::wide::WideTable;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Page {
    #[partition_key]
    site: String,
    #[row_key]
    path: String,
    title: String,
    #[entity(split)]
    text: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(wide, rename_all = "PascalCase")]
struct Book {
    #[partition_key]
    shelf: String,
    #[row_key]
    number: u32,
    #[entity(split)]
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Metered::new(MemoryStore::new(), meter.clone()).into_shared();
    let pages = Database::new(store.clone()).table::<Page>("Pages")?;
    pages.declare().await?;

    let page = Page {
        site: "docs".to_owned(),
        path: "index".to_owned(),
        title: "Start".to_owned(),
        text: "word ".repeat(20_000), // 100,000 characters
    };
    let (inserted, cost) = meter.measure(pages.insert(&page)).await;
    inserted?;
    assert_eq!(cost.total(), 1);
    let key = Page::key("docs", "index")?;
    let (read, cost) = meter.measure(pages.get_existing(&key)).await;
    assert_eq!(read?, page);
    assert_eq!(cost.total(), 1);

    // Another client sees the parts and their number. `Text` itself is absent.
    let row = store.get_existing(pages.name(), key.key()).await?;
    let names: Vec<_> = row
        .properties()
        .iter()
        .map(|property| property.name().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "Title",
            "Text_Parts",
            "Text_Part1",
            "Text_Part2",
            "Text_Part3",
            "Text_Part4"
        ]
    );

    // With `wide` on the type, an entity that is larger than one row (1 MiB) is stored in several rows of its partition, up to 4 MiB.
    // Rows of at most 256 KiB instead of nearly 1 MiB, so that the example has several.
    let books = WideTable::<Book>::new(store.clone(), "Books")?.with_row_bytes(256 * 1024);
    books.create_if_missing().await?;
    let book = Book {
        shelf: "a".to_owned(),
        number: 1,
        text: "word ".repeat(300_000),
    }; // 1,500,000 characters
    books.insert(&book).await?;
    assert_eq!(
        books.get_existing(Book::key("a", 1)?).await?.into_inner(),
        book
    );
    // 1,500,000 characters are 3 MB in UTF-16.
    let rows = store.query_all(&"Books".parse()?, &Query::new()).await?;
    assert!(rows.len() > 10, "{} rows of at most 256 KiB", rows.len());

    // A shorter text leaves no parts.
    pages
        .upsert(&Page {
            text: "short".to_owned(),
            ..page
        })
        .await?;
    let row = store.get_existing(pages.name(), key.key()).await?;
    assert_eq!(row.properties().len(), 2);
    assert_eq!(row.get("Text"), Some(ValueRef::String("short")));
    Ok(())
}
