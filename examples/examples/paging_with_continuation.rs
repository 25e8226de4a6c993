//! Pages by continuation token, for a client that you trust. The client keeps the token, and the server keeps no state.
//!
//! A continuation token is not signed and contains a key: for web clients use `web_pages`. Cost: 1 request per page.

use table_patterns::prelude::*;

#[derive(Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Product {
    #[partition_key]
    category: String,
    #[row_key]
    number: u32,
    name: String,
}

/// Returns the names on a page, and the continuation token of the next page.
async fn page(
    products: &Table<Product>,
    category: &str,
    token: Option<&str>,
) -> table_core::Result<(Vec<String>, Option<String>)> {
    let from = token.map(str::parse::<Continuation>).transpose()?;
    let query = products
        .query()
        .partition(Product::partition(category)?)
        .limit(10);
    let page = query.page(from.as_ref()).await?; // 1 request
    let names = page.items.into_iter().map(|product| product.name).collect();
    Ok((names, page.continuation.map(|next| next.to_string())))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let products = Database::new(MemoryStore::new()).table::<Product>("Products")?;
    products.declare().await?;
    for number in 0..25 {
        let product = Product {
            category: "tea".to_owned(),
            number,
            name: format!("tea {number}"),
        };
        products.insert(&product).await?;
    }

    let (first, token) = page(&products, "tea", None).await?;
    assert_eq!(first[0], "tea 0");
    let (second, token) = page(&products, "tea", token.as_deref()).await?;
    assert_eq!(second[0], "tea 10");
    let (third, no_token) = page(&products, "tea", token.as_deref()).await?;
    assert_eq!(third.len(), 5);
    assert_eq!(no_token, None);

    // A token of another query is refused, and so is a text that is not a token. But a token is not authenticated: a client can
    // forge the position within its query.
    assert!(page(&products, "coffee", token.as_deref()).await.is_err());
    assert!(page(&products, "tea", Some("nonsense")).await.is_err());
    Ok(())
}
