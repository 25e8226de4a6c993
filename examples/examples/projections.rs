//! Reads a few properties into a separate struct.

use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::typed::FromEntity;

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

/// The properties for a list of documents; the texts are not transferred. Checked against `Document` at
/// compile time.
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
    let documents = Table::<Document>::new(MemoryStore::new(), "Documents")?;
    documents.create_if_missing().await?;
    for (name, pages) in [("intro", 3), ("manual", 240)] {
        let (title, text) = (format!("The {name}"), "a long text ".repeat(1_000));
        let document = Document { folder: "docs".to_owned(), name: name.to_owned(), title, pages, text };
        documents.insert(&document).await?;
    }

    let folder = documents.query().partition(Document::partition("docs")?);
    let headings = folder.clone().filter(Document::PAGES.gt(100)).project::<Heading>().all().await?;
    let manual = Heading { name: "manual".to_owned(), title: "The manual".to_owned(), pages: 240 };
    assert_eq!(headings, [manual]);

    // Only the properties that decoding needs are requested; keys are always included.
    let select = Heading::select().expect("a projection selects");
    assert!(select.contains("Title") && !select.contains("Text"));

    // A point read can use a projection too.
    let intro = documents.get_as::<Heading>(Document::key("docs", "intro")?).await?;
    assert_eq!(intro.map(|heading| heading.pages), Some(3));
    Ok(())
}
