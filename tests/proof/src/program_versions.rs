//! The programs of the deployment scenes: version N, candidates for version N + 1, and a program with another entity
//! type.

use table_core::typed::TableEntity;

/// The operations of a program on its entities.
pub(super) trait Program:
    TableEntity + TableEntity<Patch: Send + Sync> + Clone + Send + 'static
{
    /// A new entity.
    fn new(id: &str, value: &str, mark: &str) -> Self;
    /// Changes the value and counts the change.
    fn change(&mut self, value: &str, mark: &str);
    /// A patch that sets the note, without a read.
    fn noted(mark: &str) -> Self::Patch;
}

/// The counter of changes by every version, and the counter of changes by version N + 1 only.
pub(super) const COUNT: &str = "Count";
pub(super) const ADDED: &str = "Added";
/// The property that a merge writes.
pub(super) const NOTE: &str = "Note";
/// The unique property of tickets.
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

/// A program of persons: a remote index with the given PartitionKey, a local index, and the additional indexes.
macro_rules! person {
    (
        $(#[$doc:meta])* $name:ident,
        schema [$($schema:tt)*],
        remote $partition:tt,
        more [$($index:meta),*]
        $(, $added:ident)?
    ) => {
        program!(
            $(#[$doc])*
            $name,
            [
                entity(type = "Person", rename_all = "PascalCase" $($schema)*),
                index(known, partition_key = $partition, row_key = "at_{place}_{id}"),
                index(kept, row_key = "kept_{value}_{id}")
                $(, $index)*
            ],
            value
            $(, $added)?
        );
    };
}

/// The upgrade of rows of version N to a later schema version.
macro_rules! upgrade_from_before {
    ($($name:ident),*) => {$(
        impl From<Before> for $name {
            fn from(Before { place, id, value, count, by, note }: Before) -> Self {
                Self { place, id, value, count, by, note, added: None }
            }
        }
    )*};
}

person!(
    /// Version N, with a remote and a local index.
    Before, schema [], remote "known_{value}", more []
);

person!(
    /// Version N with one more property.
    Extended, schema [], remote "known_{value}", more [], added
);

person!(
    /// Version N with one more index.
    Indexed,
    schema [],
    remote "known_{value}",
    more [index(more, partition_key = "more_{value}", row_key = "at_{place}_{id}")],
    added
);

person!(
    /// Version N with one more unique index.
    Unique,
    schema [],
    remote "known_{value}",
    more [index(one, partition_key = "one_{value}", row_key = "one", unique = "table")],
    added
);

program!(
    /// Version N without the remote index.
    Freed,
    [
        entity(type = "Person", rename_all = "PascalCase"),
        index(kept, row_key = "kept_{value}_{id}")
    ],
    value,
    added
);

person!(
    /// Version N with other keys in its remote index.
    Changed, schema [], remote "again_{value}", more [], added
);

person!(
    /// Version N with another schema version.
    Raised, schema [, version = 2, previous = Before], remote "known_{value}", more [], added
);

person!(
    /// Version N with another schema version, whose rows version N can read.
    Readable, schema [, version = 2, min_reader = 1, previous = Before], remote "known_{value}", more [], added
);

upgrade_from_before!(Raised, Readable);

program!(
    /// Another entity type of the same table.
    Ticket,
    [
        entity(type = "Ticket", rename_all = "PascalCase"),
        index(code, partition_key = "code_{code}", row_key = "code", unique = "table"),
        index(known, partition_key = "tickets_{code}", row_key = "at_{place}_{id}")
    ],
    code
);
