use std::fmt;

use crate::error::{Error, Result};

/// The state of an index. The states follow each other as in an online schema change: the states that two writers use at
/// the same time differ by at most one step (Rae et al., *Online, Asynchronous Schema Change in F1*, VLDB 2013).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexState {
    /// The index is not in the manifest. Writers do not maintain it.
    Absent,
    /// Writers remove entries, but do not add entries.
    DeleteOnly,
    /// Writers add and remove entries. Older entities may have no entries.
    WriteOnly,
    /// Like write-only, while a build adds the entries of older entities.
    Building,
    /// The index is complete. Lookups can use it.
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

    /// Returns the name of the state in the manifest.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::DeleteOnly => "delete-only",
            Self::WriteOnly => "write-only",
            Self::Building => "building",
            Self::Readable => "readable",
        }
    }

    /// Returns the state with this name.
    ///
    /// # Errors
    /// Fails if there is no such state.
    pub fn parse(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|state| state.name() == name);
        known.ok_or_else(|| Error::invalid_request(format!("'{name}' is not a state of an index")))
    }
}

impl fmt::Display for IndexState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
