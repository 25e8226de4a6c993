use std::fmt;

/// A known difference between a service and its documentation. The suite leaves out the assertion that the
/// difference breaks, and reports that.
///
/// The local stores have no deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Deviation {
    /// A merge may leave an entity above the limits of properties and bytes.
    MergesBeyondLimits,
    /// A comparison of an Int32 property with an `L` literal is an internal error.
    Int64LiteralOnInt32,
    /// Exponents, NaN and infinities in a filter's literals are misread.
    DoubleLiterals,
    /// A filter compares times by the millisecond.
    DateTimesByMillisecond,
    /// An Int64 property is compared as the text of its digits.
    Int64AsText,
    /// A Double loses the sign of its zero.
    NegativeZero,
    /// The size of an entity is counted in the JSON of the request.
    EntitySize,
    /// A character of several bytes is damaged at the boundary between two packets of a long request.
    SplitCharacters,
    /// A table is found only under the case of its creation, although its name is taken in every case.
    TableNameCase,
    /// Entities that one group writes can share an ETag.
    GroupVersions,
}

impl Deviation {
    /// Describes the difference.
    pub const fn description(self) -> &'static str {
        match self {
            Self::MergesBeyondLimits => {
                "a merge may exceed 252 properties and 1 MiB; documented: refused"
            }
            Self::Int64LiteralOnInt32 => {
                "an Int32 property compared with an Int64 literal fails; documented: no match"
            }
            Self::DoubleLiterals => {
                "exponents, NaN and INF in a filter are misread; documented: OData literals"
            }
            Self::DateTimesByMillisecond => {
                "a filter compares times by the millisecond; documented: by 100 ns"
            }
            Self::Int64AsText => {
                "an Int64 equals a String of its digits and no Int32; documented: types differ, numbers widen"
            }
            Self::NegativeZero => "-0.0 is stored as 0.0; documented: IEEE 754 numbers",
            Self::EntitySize => {
                "1 MiB is counted in the request's JSON, in which Binary is base64: a row of more than about 767 KiB of Binary is refused; \
                 documented: by the formula, 1 MiB"
            }
            Self::SplitCharacters => {
                "a character of several bytes across two packets becomes U+FFFD; documented: UTF-8"
            }
            Self::TableNameCase => {
                "a table is missing under another case of its name; documented: case does not count"
            }
            Self::GroupVersions => {
                "entities of one group can share an ETag; each entity's own are still distinct"
            }
        }
    }

    /// Returns the address of the documented behaviour.
    pub const fn reference(self) -> &'static str {
        match self {
            Self::MergesBeyondLimits
            | Self::NegativeZero
            | Self::EntitySize
            | Self::TableNameCase => {
                "https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model"
            }
            Self::SplitCharacters => {
                "https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations"
            }
            Self::GroupVersions => {
                "https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions"
            }
            Self::Int64LiteralOnInt32
            | Self::DoubleLiterals
            | Self::DateTimesByMillisecond
            | Self::Int64AsText => {
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
