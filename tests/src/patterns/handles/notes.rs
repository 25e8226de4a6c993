//! The entities that the suite writes, one type for each layout.

use std::fmt::Debug;

use serde::{Deserialize, Serialize, Serializer};
use table_core::model::{ETag, Key, PartitionKey};
use table_core::typed::{EntityPatch as _, TableEntity};

/// The partition of every note.
pub(crate) const BOOK: &str = "book";
/// A property that no type declares.
pub(crate) const UNKNOWN: &str = "Unknown";

/// An entity in any layout.
pub(crate) trait Note: TableEntity + Clone + Debug + PartialEq {
    fn new(number: u32, title: &str, text: Option<&str>) -> Self;
    fn with_etag(self, etag: Option<ETag>) -> Self;
    fn key_of(number: u32) -> Key;
    fn patch_of(title: Option<&str>) -> Self::Patch;
    fn number(&self) -> u32;
    fn title(&self) -> &str;
    fn text(&self) -> Option<&str>;
    fn set_title(&mut self, title: &str);
    fn set_number(&mut self, number: u32);
}

macro_rules! note {
    ($(#[$doc:meta])* $name:ident, [$($attribute:meta),*], [$key:meta], [$($text:meta)?]) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        $(#[$attribute])*
        pub(crate) struct $name {
            #[$key]
            book: String,
            #[row_key(format = "{:06}")]
            number: u32,
            title: String,
            $(#[$text])?
            text: Option<String>,
            rank: u32,
            #[etag]
            etag: Option<ETag>,
        }

        impl Note for $name {
            fn new(number: u32, title: &str, text: Option<&str>) -> Self {
                let (title, text) = (title.to_owned(), text.map(str::to_owned));
                Self { book: BOOK.to_owned(), number, title, text, rank: 1, etag: None }
            }

            fn with_etag(self, etag: Option<ETag>) -> Self {
                Self { etag, ..self }
            }

            fn key_of(number: u32) -> Key {
                Self::key(BOOK, number).expect("a legal key").into_key()
            }

            fn patch_of(title: Option<&str>) -> Self::Patch {
                title.map_or_else(Self::patch, |title| Self::patch().title(title.to_owned()))
            }

            fn number(&self) -> u32 {
                self.number
            }

            fn title(&self) -> &str {
                &self.title
            }

            fn text(&self) -> Option<&str> {
                self.text.as_deref()
            }

            fn set_title(&mut self, title: &str) {
                self.title = title.to_owned();
            }

            fn set_number(&mut self, number: u32) {
                self.number = number;
            }
        }
    };
}

note!(
    /// The only type of its table.
    Untyped, [], [partition_key], []
);
note!(
    /// A type with a discriminator property: the table can hold other types.
    Typed, [entity(type = "Note")], [partition_key], []
);
note!(
    /// With a local entry.
    Indexed, [entity(type = "Note"), index(rank, row_key = "rank_{rank:04}_{number:06}")], [partition_key], []
);
note!(
    /// With a feed of its changes.
    Recorded, [entity(type = "Note", feed)], [partition_key], []
);
note!(Wider, [entity(wide)], [partition_key], []);
note!(
    /// With its text in a blob.
    Large, [entity(type = "Note")], [partition_key], [large(over = 3)]
);
note!(
    /// With its text in a blob, and a local entry.
    LargeIndexed, [entity(type = "Note"), index(rank, row_key = "rank_{rank:04}_{number:06}")], [partition_key], [large(over = 3)]
);
note!(Spread, [], [partition_key(spread = 4)], []);

/// A type of serde. The suite needs the derived traits too; its handle uses serde alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TableEntity)]
#[entity(partition_key = "{book}", row_key = "{row}")]
pub(crate) struct Plain {
    #[serde(rename = "PartitionKey")]
    book: String,
    #[serde(rename = "RowKey")]
    row: String,
    title: String,
    text: Option<String>,
    rank: u32,
    #[etag]
    #[serde(rename = "odata.etag")]
    etag: Option<ETag>,
}

fn row_of(number: u32) -> String {
    format!("{number:06}")
}

impl Note for Plain {
    fn new(number: u32, title: &str, text: Option<&str>) -> Self {
        let (title, text) = (title.to_owned(), text.map(str::to_owned));
        Self {
            book: BOOK.to_owned(),
            row: row_of(number),
            title,
            text,
            rank: 1,
            etag: None,
        }
    }

    fn with_etag(self, etag: Option<ETag>) -> Self {
        Self { etag, ..self }
    }

    fn key_of(number: u32) -> Key {
        Key::new(BOOK, row_of(number)).expect("a legal key")
    }

    fn patch_of(title: Option<&str>) -> Self::Patch {
        title.map_or_else(Self::patch, |title| Self::patch().title(title.to_owned()))
    }

    fn number(&self) -> u32 {
        self.row.parse().expect("digits")
    }

    fn title(&self) -> &str {
        &self.title
    }

    fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    fn set_title(&mut self, title: &str) {
        self.title = title.to_owned();
    }

    fn set_number(&mut self, number: u32) {
        self.row = row_of(number);
    }
}

impl Serialize for PlainPatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_properties()
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

/// The partition of every note.
pub(super) fn book() -> PartitionKey {
    PartitionKey::new(BOOK).expect("a legal key")
}
