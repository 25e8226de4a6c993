//! A text that is longer than one property: it is stored in several properties of its row, and read as one.

use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
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
    let pages = Table::<Page>::new(store.clone(), "Pages")?;
    pages.create_if_missing().await?;

    let (site, path, title) = ("docs".to_owned(), "index".to_owned(), "Start".to_owned());
    let page = Page { site, path, title, text: "word ".repeat(20_000) }; // 100,000 characters
    meter.reset();
    pages.insert(&page).await?;
    let key = Page::key("docs", "index")?;
    assert_eq!(pages.get_existing(&key).await?, page);
    assert_eq!(meter.total(), 2, "one request to write, one to read");

    // Another client sees the parts and their number. `Text` itself is absent.
    let row = store.get_existing(pages.name(), key.key()).await?;
    let names: Vec<_> = row.properties().iter().map(|property| property.name().to_owned()).collect();
    assert_eq!(names, ["Title", "Text_Parts", "Text_Part1", "Text_Part2", "Text_Part3", "Text_Part4"]);

    // Over the size of one row, an entity is spread over several: up to 4 MiB.
    let books = WideTable::<Book>::new(store.clone(), "Books")?.with_row_bytes(256 * 1024);
    books.create_if_missing().await?;
    let book = Book { shelf: "a".to_owned(), number: 1, text: "word ".repeat(300_000) }; // 1,500,000 characters
    books.insert(&book).await?;
    assert_eq!(books.get_existing(Book::key("a", 1)?).await?.into_inner(), book);
    let rows = store.query_all(&"Books".parse()?, &Query::new()).await?;
    assert!(rows.len() > 10, "{} rows of at most 256 KiB", rows.len());

    // A shorter text leaves no parts.
    pages.upsert(&Page { text: "short".to_owned(), ..page }).await?;
    let row = store.get_existing(pages.name(), key.key()).await?;
    assert_eq!((row.properties().len(), row.get("Text")), (2, Some(ValueRef::String("short"))));
    Ok(())
}
