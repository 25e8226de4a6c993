//! The types that most programs need: `use table_patterns::prelude::*;`

pub use table_core::prelude::*;

pub use crate::{Database, Group, Table};
