//! Pages for a web client, which keeps the cursor. The server keeps no state.

use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::query::Continuation;

#[derive(Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Product {
    #[partition_key]
    category: String,
    #[row_key]
    number: u32,
    name: String,
}

/// The server's answer: the names on a page and the cursor of the next page.
async fn page(
    products: &Table<Product>,
    category: &str,
    cursor: Option<&str>,
) -> table_core::Result<(Vec<String>, Option<String>)> {
    let from = cursor.map(str::parse::<Continuation>).transpose()?;
    let query = products.query().partition(Product::partition(category)?).limit(10);
    let page = query.page(from.as_ref()).await?; // 1 request
    let names = page.items.into_iter().map(|product| product.name).collect();
    Ok((names, page.continuation.map(|c| c.to_string())))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let products = Table::<Product>::new(MemoryStore::new(), "Products")?;
    products.create_if_missing().await?;
    for number in 0..25 {
        let product = Product { category: "tea".to_owned(), number, name: format!("tea {number}") };
        products.insert(&product).await?;
    }

    let (first, cursor) = page(&products, "tea", None).await?;
    assert_eq!(first[0], "tea 0");
    let (second, cursor) = page(&products, "tea", cursor.as_deref()).await?;
    assert_eq!(second[0], "tea 10");
    let (third, end) = page(&products, "tea", cursor.as_deref()).await?;
    assert_eq!(third.len(), 5);
    assert_eq!(end, None);

    // A cursor belongs to its query, and is validated like any input.
    assert!(page(&products, "coffee", cursor.as_deref()).await.is_err());
    assert!(page(&products, "tea", Some("nonsense")).await.is_err());
    Ok(())
}
