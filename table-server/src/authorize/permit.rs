//! The actions of requests, and the permissions of credentials that they need.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#table-service>,
//! <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-table>

use table_core::Error;
use table_core::model::{Key, RowKind, TableName};
use table_core::store::{ErrorKind, Outcome};

use super::KeyRange;
use crate::errors::{Failure, Result};

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
            Self::GetProperties
                | Self::GetStatistics
                | Self::QueryTables
                | Self::GetPolicies
                | Self::Query
        )
    }

    /// Returns the resource type's letter in an account SAS; `None` if no account SAS allows the action.
    const fn resource(self) -> Option<char> {
        match self {
            Self::GetProperties | Self::SetProperties | Self::GetStatistics => Some('s'),
            Self::QueryTables | Self::CreateTable | Self::DeleteTable => Some('c'),
            Self::GetPolicies | Self::SetPolicies => None,
            Self::Query | Self::Insert | Self::Upsert | Self::Update | Self::Delete => Some('o'),
        }
    }

    /// Returns the permission letters of an account SAS. One of these sets must be complete.
    const fn account_permissions(self) -> &'static [&'static str] {
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
    const fn table_permissions(self) -> &'static [&'static str] {
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

/// The permissions of a request's credential.
#[derive(Clone, Debug)]
pub(crate) enum Permit {
    /// Everything: the credential is an account key.
    Owner,
    /// An account SAS.
    Account {
        permissions: String,
        resources: String,
    },
    /// A table SAS.
    Table {
        table: String,
        permissions: String,
        range: KeyRange,
        /// Tells one signature from another, and reveals none.
        identity: [u8; 32],
    },
}

/// The permissions by which a credential may do everything with the rows of a table.
const FULL: &str = "raud";

impl Permit {
    /// Refuses an action on a table or on the account that the credential does not allow.
    pub(crate) fn check(&self, action: Action, table: Option<&TableName>) -> Result<()> {
        match self {
            Self::Owner => Ok(()),
            Self::Account {
                permissions,
                resources,
            } => {
                let resource = action.resource().ok_or_else(|| {
                    Failure::unauthorized(
                        "AuthorizationFailure",
                        "no account SAS allows this action",
                    )
                })?;
                if !resources.contains(resource) {
                    let reason = format!("the signature's resource types lack '{resource}'");
                    return Err(Failure::unauthorized(
                        "AuthorizationResourceTypeMismatch",
                        &reason,
                    ));
                }
                check_permissions(permissions, action.account_permissions())
            }
            Self::Table {
                table: signed,
                permissions,
                ..
            } => {
                // Table names ignore case, and the signature has the lower-case name.
                if table.is_none_or(|table| table.to_lowercase() != *signed) {
                    let reason = "the signature is for the entities of another table";
                    return Err(Failure::unauthorized("AuthorizationFailure", reason));
                }
                check_permissions(permissions, action.table_permissions())
            }
        }
    }

    /// Refuses a write of an entity outside the signature's range, and a control row without full rights.
    pub(crate) fn check_key(&self, key: &Key) -> Result<()> {
        let reason = if !self.covers(key) {
            "the entity is outside the signature's range of keys"
        } else if key.row_kind() == RowKind::Control && !self.has_full_rights() {
            "the row belongs to the manifest or to the protocol of index entries, and only an account key, or a signature with the \
             permissions r, a, u and d on all rows, writes such rows"
        } else {
            return Ok(());
        };
        Err(Failure::unauthorized("AuthorizationFailure", reason))
    }

    /// Whether the credential may do everything with every row of the tables that it is for.
    ///
    /// Only such a credential writes [control rows](table_core::model::RowKind::Control) and entities without their index entries: what a
    /// program or the server does by such a row, it does with its own rights.
    pub(crate) fn has_full_rights(&self) -> bool {
        self.covers_all_rows(FULL)
    }

    /// Whether the credential may read every row of the tables that it is for.
    pub(crate) fn reads_every_row(&self) -> bool {
        self.covers_all_rows("r")
    }

    fn covers_all_rows(&self, needed: &str) -> bool {
        let has = |permissions: &str| needed.chars().all(|letter| permissions.contains(letter));
        match self {
            Self::Owner => true,
            Self::Account {
                permissions,
                resources,
            } => resources.contains('o') && has(permissions),
            Self::Table {
                permissions, range, ..
            } => range.is_all() && has(permissions),
        }
    }

    /// Returns the failure for the holder of this credential. The holder learns nothing of rows that the credential does not read.
    pub(crate) fn failure(&self, error: Error) -> Failure {
        let message = match (error.root().kind(), error.outcome()) {
            (ErrorKind::Decode(_), Outcome::NotApplied) => DAMAGED,
            (
                ErrorKind::UniqueViolation { .. } | ErrorKind::KeyCollision { .. },
                Outcome::Applied,
            ) => LEFT_OUT,
            // The message says nothing of rows.
            _ => return Failure::from(error),
        };
        let failure = Failure::from(error);
        if self.reads_every_row() {
            return failure;
        }
        Failure {
            message: message.into(),
            ..failure
        }
    }

    /// Whether the range of keys contains the key.
    pub(crate) fn covers(&self, key: &Key) -> bool {
        self.range().is_none_or(|range| range.contains(key))
    }

    /// Returns what distinguishes the credential from others of the account: nothing for the account's keys.
    pub(crate) fn identity(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Table { identity, .. } => Some(identity),
            Self::Owner | Self::Account { .. } => None,
        }
    }

    /// Returns the range of keys; `None` if it is unrestricted.
    pub(crate) fn range(&self) -> Option<&KeyRange> {
        match self {
            Self::Table { range, .. } if !range.is_all() => Some(range),
            _ => None,
        }
    }
}

/// The message of an error that does not say which row is damaged.
const DAMAGED: &str = "A row that the operation needs is damaged. The log of the server names it.";
/// The message of a write whose index entry was left out, because a row of another client has its key.
const LEFT_OUT: &str = "The entity was written, and an index does not contain its entry. The log of the server names it.";

/// Checks that permissions have every letter of one of the sufficient sets. An action without a set is never permitted.
fn check_permissions(permissions: &str, sufficient: &[&str]) -> Result<()> {
    if sufficient
        .iter()
        .any(|set| set.chars().all(|letter| permissions.contains(letter)))
    {
        return Ok(());
    }
    let reason = match sufficient {
        [] => "no signature for a table allows this action: use an account key".to_owned(),
        sets => format!(
            "the signature has the permissions '{permissions}', and this action needs '{}'",
            sets.join("' or '")
        ),
    };
    Err(Failure::unauthorized(
        "AuthorizationPermissionMismatch",
        &reason,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(permit: &Permit, action: Action, table: &str) -> Result<(), &'static str> {
        permit
            .check(action, Some(&TableName::new(table).unwrap()))
            .map_err(|failure| failure.code)
    }

    #[test]
    fn a_table_sas_covers_entities_of_its_table() {
        let permit = |permissions: &str| Permit::Table {
            table: "orders".to_owned(),
            permissions: permissions.to_owned(),
            range: KeyRange::default(),
            identity: [0; 32],
        };
        assert_eq!(code(&permit("r"), Action::Query, "Orders"), Ok(()));
        assert_eq!(
            code(&permit("r"), Action::Query, "Other"),
            Err("AuthorizationFailure")
        );
        for (permissions, action) in [
            ("aud", Action::Query),
            ("rud", Action::Insert),
            ("rad", Action::Upsert),
            ("rud", Action::Upsert),
            ("rad", Action::Update),
            ("rau", Action::Delete),
            ("raud", Action::DeleteTable),
            ("raud", Action::SetPolicies),
            ("raud", Action::GetPolicies),
            ("raud", Action::CreateTable),
        ] {
            let refused = code(&permit(permissions), action, "orders");
            assert_eq!(
                refused,
                Err("AuthorizationPermissionMismatch"),
                "{action:?}"
            );
        }
        assert!(permit("raud").check(Action::QueryTables, None).is_err());
        assert_eq!(code(&permit("au"), Action::Upsert, "orders"), Ok(()));
    }

    #[test]
    fn an_account_sas_covers_its_resource_types() {
        let permit = |permissions: &str, resources: &str| Permit::Account {
            permissions: permissions.to_owned(),
            resources: resources.to_owned(),
        };
        for (permissions, resources, action, expected) in [
            ("l", "c", Action::QueryTables, Ok(())),
            (
                "l",
                "so",
                Action::QueryTables,
                Err("AuthorizationResourceTypeMismatch"),
            ),
            ("c", "c", Action::CreateTable, Ok(())),
            ("w", "c", Action::CreateTable, Ok(())),
            (
                "r",
                "c",
                Action::CreateTable,
                Err("AuthorizationPermissionMismatch"),
            ),
            (
                "rwdlacup",
                "sco",
                Action::SetPolicies,
                Err("AuthorizationFailure"),
            ),
            ("au", "o", Action::Upsert, Ok(())),
            (
                "a",
                "o",
                Action::Upsert,
                Err("AuthorizationPermissionMismatch"),
            ),
            ("r", "s", Action::GetStatistics, Ok(())),
            ("w", "s", Action::SetProperties, Ok(())),
        ] {
            assert_eq!(
                code(&permit(permissions, resources), action, "orders"),
                expected,
                "{action:?}"
            );
        }
    }

    #[test]
    fn full_rights_are_every_permission_on_every_row() {
        let range = |partition: &str| KeyRange {
            start: super::super::range::Bound::of(partition, "").unwrap(),
            end: None,
        };
        let table = |permissions: &str, range| Permit::Table {
            table: "orders".to_owned(),
            permissions: permissions.to_owned(),
            range,
            identity: [0; 32],
        };
        let account = |permissions: &str, resources: &str| Permit::Account {
            permissions: permissions.to_owned(),
            resources: resources.to_owned(),
        };
        for (permit, full, reads) in [
            (Permit::Owner, true, true),
            (account("rwdlacup", "sco"), true, true),
            (account("raud", "o"), true, true),
            (account("raud", "sc"), false, false),
            (account("rwlcup", "sco"), false, true),
            (table("raud", KeyRange::default()), true, true),
            (table("raud", range("a")), false, false),
            (table("rau", KeyRange::default()), false, true),
            (table("aud", KeyRange::default()), false, false),
        ] {
            assert_eq!(
                (permit.has_full_rights(), permit.reads_every_row()),
                (full, reads),
                "{permit:?}"
            );
        }
    }
}
