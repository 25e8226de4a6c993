//! The actions of requests, and the permissions that a SAS needs for each.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#table-service>,
//! <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-table>

/// An action that needs authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    GetProperties,
    SetProperties,
    GetStatistics,
    QueryTables,
    CreateTable,
    DeleteTable,
    GetPolicies,
    SetPolicies,
    Query,
    Insert,
    Upsert,
    Update,
    Delete,
}

impl Action {
    pub(crate) const fn is_read(self) -> bool {
        matches!(
            self,
            Self::GetProperties | Self::GetStatistics | Self::QueryTables | Self::GetPolicies | Self::Query
        )
    }

    /// Returns the resource type's letter in an account SAS; `None` if no account SAS allows the action.
    pub(super) const fn resource(self) -> Option<char> {
        match self {
            Self::GetProperties | Self::SetProperties | Self::GetStatistics => Some('s'),
            Self::QueryTables | Self::CreateTable | Self::DeleteTable => Some('c'),
            Self::GetPolicies | Self::SetPolicies => None,
            Self::Query | Self::Insert | Self::Upsert | Self::Update | Self::Delete => Some('o'),
        }
    }

    /// Returns the permission letters of an account SAS. One of these sets must be complete.
    pub(super) const fn account_permissions(self) -> &'static [&'static str] {
        match self {
            Self::GetProperties | Self::GetStatistics => &["r"],
            Self::SetProperties => &["w"],
            Self::QueryTables => &["l"],
            Self::CreateTable => &["w", "c"],
            Self::DeleteTable => &["d"],
            Self::GetPolicies | Self::SetPolicies => &[],
            entities => entities.table_permissions(),
        }
    }

    /// Returns the permission letters of a table SAS. One of these sets must be complete.
    pub(super) const fn table_permissions(self) -> &'static [&'static str] {
        match self {
            Self::Query => &["r"],
            Self::Insert => &["a"],
            Self::Upsert => &["au"],
            Self::Update => &["u"],
            Self::Delete => &["d"],
            _ => &[],
        }
    }
}
