use std::fmt;

use crate::error::{Error, Result};

/// Where an index is in its life. The order is that of an online schema change: no two writers are ever
/// more than one step apart (Rae et al., *Online, Asynchronous Schema Change in F1*, VLDB 2013).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexState {
    /// Not in the manifest: nobody maintains it.
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
    const ALL: [Self; 5] = [Self::Absent, Self::DeleteOnly, Self::WriteOnly, Self::Building, Self::Readable];

    /// Whether writers add and replace entries.
    pub const fn puts(self) -> bool {
        matches!(self, Self::WriteOnly | Self::Building | Self::Readable)
    }

    /// Whether writers remove entries.
    pub const fn removes(self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// The name that the manifest has.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::DeleteOnly => "delete-only",
            Self::WriteOnly => "write-only",
            Self::Building => "building",
            Self::Readable => "readable",
        }
    }

    /// The state with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|state| state.name() == name);
        known.ok_or_else(|| Error::invalid_request(format!("'{name}' is no state of an index")))
    }
}

impl fmt::Display for IndexState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
