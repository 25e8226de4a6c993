use std::fmt;

use table_core::store::{Error, Result};

/// Where an index is in its life. The order is that of an online schema change: no two writers are ever
/// more than one step apart (Rae et al., *Online, Asynchronous Schema Change in F1*, VLDB 2013).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexState {
    /// Not in the catalog: nobody maintains it.
    Absent,
    /// Writers remove entries and add none.
    DeleteOnly,
    /// Writers maintain entries; entities from before have none yet.
    WriteOnly,
    /// Like write-only, while entries of older entities are added.
    Building,
    /// Complete: lookups may use it.
    Readable,
}

impl IndexState {
    /// Whether writers add and replace entries.
    pub const fn puts(self) -> bool {
        matches!(self, Self::WriteOnly | Self::Building | Self::Readable)
    }

    /// Whether writers remove entries.
    pub const fn removes(self) -> bool {
        !matches!(self, Self::Absent)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::DeleteOnly => "delete-only",
            Self::WriteOnly => "write-only",
            Self::Building => "building",
            Self::Readable => "readable",
        }
    }

    pub(super) fn parse(name: &str) -> Result<Self> {
        let all = [Self::Absent, Self::DeleteOnly, Self::WriteOnly, Self::Building, Self::Readable];
        let known = all.into_iter().find(|s| s.name() == name);
        known.ok_or_else(|| {
            Error::invalid_request(format!("the catalog names an unknown index state '{name}'"))
        })
    }
}

impl fmt::Display for IndexState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
