use std::fmt;

/// A behaviour in which a service is known to differ from the documented one, so that the suite can
/// leave out the assertion that cannot hold there, and say so.
///
/// The engine of the local stores has none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Deviation {
    /// A merge may leave an entity above the limits of properties and bytes.
    MergesBeyondLimits,
    /// An Int32 property compared with an `L` literal is an internal error.
    Int64LiteralOnInt32,
    /// Exponents, NaN and infinities in a filter's literals are misread.
    DoubleLiterals,
}

impl Deviation {
    /// What is different.
    pub const fn description(self) -> &'static str {
        match self {
            Self::MergesBeyondLimits => "a merge may exceed 252 properties and 1 MiB; documented: refused",
            Self::Int64LiteralOnInt32 => {
                "an Int32 property compared with an Int64 literal fails; documented: no match"
            }
            Self::DoubleLiterals => {
                "exponents, NaN and INF in a filter are misread; documented: OData literals"
            }
        }
    }

    /// Where the documented behaviour is described.
    pub const fn reference(self) -> &'static str {
        match self {
            Self::MergesBeyondLimits => {
                "https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model"
            }
            Self::Int64LiteralOnInt32 | Self::DoubleLiterals => {
                "https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities"
            }
        }
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <{}>", self.description(), self.reference())
    }
}
