//! Projections: reads only some properties of each entity, into a struct of their own. Use them for lists of entities with large
//! properties.
//!
//! Cost: the requests of the query or point read; the responses are smaller.

use table_patterns::prelude::*;

#[derive(Debug, TableEntity)]
#[entity(type = "Document", rename_all = "PascalCase")]
struct Document {
    #[partition_key]
    folder: String,
    #[row_key]
    name: String,
    title: String,
    pages: i32,
    text: String,
}

/// The columns of a list of documents, without the text. The compiler checks that `Document` has these properties with these types.
#[derive(Debug, PartialEq, TableEntity)]
#[entity(projection_of = Document, rename_all = "PascalCase")]
struct Heading {
    #[row_key]
    name: String,
    title: String,
    pages: i32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let documents = Database::new(MemoryStore::new()).table::<Document>("Documents")?;
    documents.declare().await?;
    for (name, pages) in [("intro", 3), ("manual", 240)] {
        let document = Document {
            folder: "docs".to_owned(),
            name: name.to_owned(),
            title: format!("The {name}"),
            pages,
            text: "a long text ".repeat(1_000),
        };
        documents.insert(&document).await?;
    }

    let folder = documents.query().partition(Document::partition("docs")?);
    let headings = folder
        .clone()
        .filter(Document::PAGES.gt(100))
        .project::<Heading>()
        .all()
        .await?;
    let manual = Heading {
        name: "manual".to_owned(),
        title: "The manual".to_owned(),
        pages: 240,
    };
    assert_eq!(headings, [manual]);

    // `select` has the names of the requested properties: those in the struct, and PartitionKey and RowKey.
    let select = Heading::select().expect("a projection selects");
    assert!(select.contains("Title"));
    assert!(!select.contains("Text"));

    // A point read can use a projection too.
    let intro = documents
        .get_as::<Heading>(Document::key("docs", "intro")?)
        .await?;
    assert_eq!(intro.map(|heading| heading.pages), Some(3));
    Ok(())
}
