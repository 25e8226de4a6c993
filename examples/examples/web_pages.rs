//! Pages for a web client, with links to the next and the previous page. The client cannot read or change the cursors.

use std::time::Duration;

use serde::Serialize;
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_patterns::paging::{CursorError, CursorKey, PageError, Pager};

#[derive(Debug, Serialize, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Product {
    #[partition_key]
    category: String,
    #[row_key]
    number: u32,
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let products = Table::<Product>::new(MemoryStore::new(), "Products")?;
    products.create_if_missing().await?;
    for number in 0..25 {
        let product = Product { category: "tea".to_owned(), number, name: format!("tea {number}") };
        products.insert(&product).await?;
    }
    // The secret is in the application's configuration, and the same in all of its processes.
    let pager = Pager::new(CursorKey::new([7; 32])).valid_for(Duration::from_secs(600));
    let tea = products.query().partition(Product::partition("tea")?).limit(10);

    let first = pager.page(&tea, "ann", None).await?; // 1 request
    let second = pager.page(&tea, "ann", first.next.as_deref()).await?;
    let back = pager.page(&tea, "ann", second.previous.as_deref()).await?;
    assert_eq!((second.items[0].number, back.items[0].number, back.is_first), (10, 0, true));
    let json = serde_json::to_value(&second)?; // items, next, previous, isFirst, isLast
    assert_eq!(json["isFirst"], false);

    // A cursor works for its user and its query.
    let refused = pager.page(&tea, "bob", first.next.as_deref()).await;
    assert!(matches!(refused, Err(PageError::Cursor(CursorError::OfAnotherUser))));
    let all = products.query().limit(10);
    let refused = pager.page(&all, "ann", first.next.as_deref()).await;
    assert!(matches!(refused, Err(PageError::Cursor(CursorError::OfAnotherQuery))));
    Ok(())
}
