//! Pages for a web client, with links to the next and the previous page. The client cannot read or change the cursors.
//!
//! Cost: 1 request per page, forwards and up to 8 pages back in a row.

use std::time::Duration;

use serde::Serialize;
use table_patterns::paging::{CursorError, CursorKey, PageError, Pager};
use table_patterns::prelude::*;

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
    // A key for this example only. A program reads 32 random bytes from its secret store, and all processes of the application have
    // the same key.
    let pager = Pager::new(CursorKey::new([7; 32])).valid_for(Duration::from_secs(600));
    let tea = products
        .query()
        .partition(Product::partition("tea")?)
        .limit(10);

    // "ann" is the signed-in user: the cursor works for this user only.
    let first = pager.page(&tea, "ann", None).await?; // 1 request
    let second = pager.page(&tea, "ann", first.next.as_deref()).await?;
    let back = pager.page(&tea, "ann", second.previous.as_deref()).await?;
    assert_eq!(second.items[0].number, 10);
    assert_eq!(back.items[0].number, 0);
    assert!(back.is_first);
    let json = serde_json::to_value(&second)?; // items, next, previous, isFirst, isLast
    assert_eq!(json["isFirst"], false);

    // A cursor is refused for another user or another query, before a request is sent.
    let other_user = pager.page(&tea, "bob", first.next.as_deref()).await;
    assert!(matches!(
        other_user,
        Err(PageError::Cursor(CursorError::OfAnotherUser))
    ));
    let all = products.query().limit(10);
    let other_query = pager.page(&all, "ann", first.next.as_deref()).await;
    assert!(matches!(
        other_query,
        Err(PageError::Cursor(CursorError::OfAnotherQuery))
    ));
    Ok(())
}
