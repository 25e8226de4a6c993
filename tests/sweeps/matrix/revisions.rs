//! Three schema versions of a type in every layout, and the programs that write them. Version 2 has the name of version 1 as
//! `full`. Version 3 adds `later`, and version 2 can read it.

use crate::programs::Subject;
use crate::world::SECRET;

/// An entity of one of the versions.
pub(crate) trait Revision: Subject {
    /// The entity as this version makes it.
    fn new(r: u32) -> Self;
    fn name(&self) -> &str;
    /// The encrypted value of a sealed type.
    fn secret(&self) -> &str;
}

macro_rules! subject {
    ($name:ident, $field:ident) => {
        impl crate::programs::Subject for $name {
            fn key_of(r: u32) -> Key {
                Self::key("p", r).unwrap().into_key()
            }

            fn number(&self) -> u32 {
                self.r
            }

            fn rename(&mut self, name: &str) {
                name.clone_into(&mut self.$field);
            }
        }
    };
}

macro_rules! versions {
    ($module:ident, [$($attr:meta),*], [$($first:meta),*], [$($second:meta),*], [$($third:meta),*], $key:meta, [$($large:meta),*], [$($secret:meta),*]) => {
        pub(crate) mod $module {
            use table_core::prelude::*;

            use super::{Revision, SECRET};

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            $(#[$first])*
            pub(crate) struct V1 {
                #[$key]
                p: String,
                #[row_key]
                r: u32,
                tag: i32,
                name: String,
                $(#[$secret])*
                secret: String,
                $(#[$large])*
                text: String,
            }

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            $(#[$second])*
            #[entity(version = 2, previous = V1)]
            pub(crate) struct V2 {
                #[$key]
                p: String,
                #[row_key]
                r: u32,
                tag: i32,
                full: String,
                $(#[$secret])*
                secret: String,
                $(#[$large])*
                text: String,
            }

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            $(#[$third])*
            #[entity(version = 3, min_reader = 2, previous = V2)]
            pub(crate) struct V3 {
                #[$key]
                p: String,
                #[row_key]
                r: u32,
                tag: i32,
                full: String,
                $(#[$secret])*
                secret: String,
                $(#[$large])*
                text: String,
                pub(crate) later: Option<String>,
            }

            impl From<V1> for V2 {
                fn from(V1 { p, r, tag, name, secret, text }: V1) -> Self {
                    Self { p, r, tag, full: format!("{name}!"), secret, text }
                }
            }

            impl From<V2> for V3 {
                fn from(V2 { p, r, tag, full, secret, text }: V2) -> Self {
                    Self { p, r, tag, full, secret, text, later: None }
                }
            }

            impl Revision for V1 {
                fn new(r: u32) -> Self {
                    let (p, name, secret) = ("p".to_owned(), format!("name{r}"), format!("{SECRET}{r}"));
                    Self { p, r, tag: 7, name, secret, text: format!("{SECRET}text").repeat(5) }
                }

                fn name(&self) -> &str {
                    &self.name
                }

                fn secret(&self) -> &str {
                    &self.secret
                }
            }

            impl Revision for V2 {
                fn new(r: u32) -> Self {
                    V1::new(r).into()
                }

                fn name(&self) -> &str {
                    &self.full
                }

                fn secret(&self) -> &str {
                    &self.secret
                }
            }

            impl Revision for V3 {
                fn new(r: u32) -> Self {
                    Self { later: Some("later".to_owned()), ..V2::new(r).into() }
                }

                fn name(&self) -> &str {
                    &self.full
                }

                fn secret(&self) -> &str {
                    &self.secret
                }
            }

            subject!(V1, name);
            subject!(V2, full);
            subject!(V3, full);
        }
    };
}

/// The versions of a layout, and the same with encrypted fields.
macro_rules! layouts {
    ($module:ident, $sealed:ident, [$($attr:meta),*], [$($first:meta),*], [$($second:meta),*], [$($third:meta),*], $key:meta, [$($large:meta),*]) => {
        versions!($module, [$($attr),*], [$($first),*], [$($second),*], [$($third),*], $key, [$($large),*], []);
        versions!($sealed, [$($attr),*], [$($first),*], [$($second),*], [$($third),*], $key, [encrypt $(, $large)*], [encrypt]);
    };
}

layouts!(plain, sealed_plain, [entity(type = "Thing")], [], [], [], partition_key, []);
layouts!(indexed, sealed_indexed, [entity(type = "Thing")], [
    index(tag, row_key = "tag_{tag}_{r}")
], [
    index(tag, row_key = "tag_{tag}_{r}"),
    index(full, row_key = "full_{full}_{r}")
], [
    index(tag, row_key = "tag_{tag}_{r}"),
    index(full, row_key = "full_{full}_{r}"),
    index(sole, partition_key = "sole_{full}", row_key = "x", unique = "table"),
    index(copy, partition_key = "copy_{full}", row_key = "{p}_{r}", payload = full)
], partition_key, []);
layouts!(large, sealed_large, [entity(type = "Thing")], [], [], [], partition_key, [large(over = 16)]);
layouts!(large_indexed, sealed_large_indexed, [entity(type = "Thing")], [
    index(tag, row_key = "tag_{tag}_{r}")
], [
    index(tag, row_key = "tag_{tag}_{r}"),
    index(full, row_key = "full_{full}_{r}")
], [
    index(tag, row_key = "tag_{tag}_{r}"),
    index(full, row_key = "full_{full}_{r}"),
    index(sole, partition_key = "sole_{full}", row_key = "x", unique = "table")
], partition_key, [large(over = 16)]);
layouts!(spread, sealed_spread, [entity(type = "Thing")], [], [], [], partition_key(spread = 4), []);
layouts!(wide, sealed_wide, [entity(type = "Thing", wide)], [], [], [], partition_key, []);

/// Runs `$check` as a test for each layout on each store, in plaintext and encrypted, with the programs of the three versions.
macro_rules! on_every_layout {
    ($check:ident) => {
        mod memory {
            $crate::revisions::on_every_layout!(@store $check, $crate::backends::Memory);
        }
        mod embedded {
            $crate::revisions::on_every_layout!(@store $check, $crate::backends::Embedded::new());
        }
        mod azurite {
            $crate::revisions::on_every_layout!(@store $check, $crate::backends::Emulated::new(&[]));
        }
        mod served {
            $crate::revisions::on_every_layout!(@store $check, $crate::backends::Served);
        }
    };
    (@store $check:ident, $backend:expr) => {
        use table_patterns::Table;
        use table_patterns::spread::SpreadTable;
        use table_patterns::wide::WideTable;

        const BACKENDS: $crate::world::Backends = || Box::new($backend);

        $crate::revisions::on_every_layout!(@layout $check, plain_rows, Table, plain, sealed_plain);
        $crate::revisions::on_every_layout!(@layout $check, indexed, Table, indexed, sealed_indexed);
        $crate::revisions::on_every_layout!(@layout $check, large, Table, large, sealed_large);
        $crate::revisions::on_every_layout!(@layout $check, large_indexed, Table, large_indexed, sealed_large_indexed);
        $crate::revisions::on_every_layout!(@layout $check, spread, SpreadTable, spread, sealed_spread);
        $crate::revisions::on_every_layout!(@layout $check, wide, WideTable, wide, sealed_wide);
    };
    (@layout $check:ident, $name:ident, $table:ident, $plain:ident, $sealed:ident) => {
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn plain() {
                use $crate::revisions::$plain::{V1, V2, V3};
                super::super::$check::<$table<V1>, $table<V2>, $table<V3>>(BACKENDS, false).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sealed() {
                use $crate::revisions::$sealed::{V1, V2, V3};
                super::super::$check::<$table<V1>, $table<V2>, $table<V3>>(BACKENDS, true).await;
            }
        }
    };
}

pub(crate) use on_every_layout;
