//! `Serialize` and `Deserialize` of queries: a filter and a continuation as their text.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Continuation, Filter, Select};
use crate::model::as_text;

as_text! {
    /// As text. The text contains a key of an entity.
    Continuation: |text: Cow<'_, str>| text.parse::<Self>();
    /// As `$filter` text.
    Filter: |text: Cow<'_, str>| text.parse::<Self>();
}

/// As a list of names.
impl Serialize for Select {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

impl<'de> Deserialize<'de> for Select {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<String>::deserialize(deserializer).map(Self::new)
    }
}
