//! The programs of a table that is deployed to: version N, what version N + 1 may be, and another program of the same table.

use table_core::prelude::*;
use table_core::typed::IndexedEntity;

/// What a program does with its entities.
pub(super) trait Program:
    IndexedEntity + TableEntity<Patch: Send + Sync> + Clone + Send + 'static
{
    /// A new one.
    fn new(id: &str, value: &str, mark: &str) -> Self;
    /// Gives it another value, and counts that.
    fn change(&mut self, value: &str, mark: &str);
    /// A note, without looking at what is there.
    fn noted(mark: &str) -> Self::Patch;
}

/// The property in which every version counts its changes, and that in which only version N + 1 does.
pub(super) const COUNT: &str = "Count";
pub(super) const ADDED: &str = "Added";
/// What a merge writes.
pub(super) const NOTE: &str = "Note";
/// What two tickets may not share.
pub(super) const CODE: &str = "Code";

macro_rules! program {
    ($(#[$doc:meta])* $name:ident, [$($attribute:meta),*], $value:ident $(, $added:ident)?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, TableEntity)]
        $(#[$attribute])*
        pub(super) struct $name {
            #[partition_key]
            place: String,
            #[row_key(format = "id_{}")]
            id: String,
            $value: String,
            count: i32,
            by: String,
            note: Option<String>,
            $($added: Option<i32>,)?
        }

        impl Program for $name {
            fn new(id: &str, value: &str, mark: &str) -> Self {
                Self {
                    place: "p".to_owned(),
                    id: id.to_owned(),
                    $value: value.to_owned(),
                    count: 0,
                    by: mark.to_owned(),
                    note: None,
                    $($added: None,)?
                }
            }

            fn change(&mut self, value: &str, mark: &str) {
                self.$value = value.to_owned();
                self.by = mark.to_owned();
                self.count += 1;
                $(self.$added = Some(self.$added.unwrap_or_default() + 1);)?
            }

            fn noted(mark: &str) -> Self::Patch {
                Self::patch().note(mark.to_owned()).by(mark.to_owned())
            }
        }
    };
}

program!(
    /// Version N, with an index elsewhere and one beside the entities.
    Before,
    [
        entity(type = "Person", rename_all = "PascalCase"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}"),
        index(kept, row_key = "kept_{value}_{id}")
    ],
    value
);

program!(
    /// It has a property more.
    Extended,
    [
        entity(type = "Person", rename_all = "PascalCase"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}"),
        index(kept, row_key = "kept_{value}_{id}")
    ],
    value,
    added
);

program!(
    /// It has an index more.
    Indexed,
    [
        entity(type = "Person", rename_all = "PascalCase"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}"),
        index(kept, row_key = "kept_{value}_{id}"),
        index(more, partition_key = "more_{value}", row_key = "at_{place}_{id}")
    ],
    value,
    added
);

program!(
    /// It has a unique index more.
    Unique,
    [
        entity(type = "Person", rename_all = "PascalCase"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}"),
        index(kept, row_key = "kept_{value}_{id}"),
        index(one, partition_key = "one_{value}", row_key = "one", unique = "table")
    ],
    value,
    added
);

program!(
    /// It has an index less.
    Freed,
    [
        entity(type = "Person", rename_all = "PascalCase"),
        index(kept, row_key = "kept_{value}_{id}")
    ],
    value,
    added
);

program!(
    /// Its indexes have other keys.
    Changed,
    [
        entity(type = "Person", rename_all = "PascalCase"),
        index(known, partition_key = "again_{value}", row_key = "at_{place}_{id}"),
        index(kept, row_key = "kept_{value}_{id}")
    ],
    value,
    added
);

program!(
    /// It has another version of the schema.
    Raised,
    [
        entity(type = "Person", version = 2, previous = Before, rename_all = "PascalCase"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}"),
        index(kept, row_key = "kept_{value}_{id}")
    ],
    value,
    added
);

impl From<Before> for Raised {
    fn from(Before { place, id, value, count, by, note }: Before) -> Self {
        Self { place, id, value, count, by, note, added: None }
    }
}

program!(
    /// It has another version of the schema, whose rows version N reads.
    Readable,
    [
        entity(type = "Person", version = 2, min_reader = 1, previous = Before, rename_all = "PascalCase"),
        index(known, partition_key = "known_{value}", row_key = "at_{place}_{id}"),
        index(kept, row_key = "kept_{value}_{id}")
    ],
    value,
    added
);

impl From<Before> for Readable {
    fn from(Before { place, id, value, count, by, note }: Before) -> Self {
        Self { place, id, value, count, by, note, added: None }
    }
}

program!(
    /// Another type of the same table.
    Ticket,
    [
        entity(type = "Ticket", rename_all = "PascalCase"),
        index(code, partition_key = "code_{code}", row_key = "code", unique = "table"),
        index(known, partition_key = "tickets_{code}", row_key = "at_{place}_{id}")
    ],
    code
);
