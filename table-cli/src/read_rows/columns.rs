//! What the columns of a file become: keys, properties, or nothing. Every rule is checked at the header, before anything is written.

use std::collections::{BTreeMap, BTreeSet};

use table_core::engine::check_operation;
use table_core::model::{Entity, Key, Properties, ValueRef};
use table_core::store::{ErrorKind, Operation, ServiceProfile};

use super::template::KeyTemplates;
use super::{PARTITION_KEY, ROW_KEY};
use crate::failure::{Failure, Result};

/// The column with the time of the last write.
pub(super) const TIMESTAMP: &str = "Timestamp";
/// The start of the names of metadata in answers of the service, such as `odata.etag`.
pub(super) const METADATA: &str = "odata.";
/// The most columns that an error lists.
const LISTED: usize = 60;

/// What the command line says of columns, by their names in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnRules {
    /// The properties or keys that columns become.
    pub(crate) rename: BTreeMap<String, String>,
    /// The columns that are left out.
    pub(crate) ignore: BTreeSet<String>,
    /// The property that the column `Timestamp` becomes.
    pub(crate) keep_timestamp: Option<String>,
}

/// What a column becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    PartitionKey,
    RowKey,
    /// The time of the last write in another store. It is left out and counted.
    Timestamp,
    /// Metadata, or a column that the command line leaves out.
    LeftOut,
    Property(String),
}

impl Role {
    /// The name under which key templates find the column.
    fn target(&self) -> Option<&str> {
        match self {
            Self::PartitionKey => Some(PARTITION_KEY),
            Self::RowKey => Some(ROW_KEY),
            Self::Property(name) => Some(name),
            Self::Timestamp | Self::LeftOut => None,
        }
    }
}

/// Whether several columns of a file may become one property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeats {
    Refused,
    /// In Parquet, a property with several types has a column for each. A row with two values is refused by itself.
    #[cfg(feature = "parquet")]
    Allowed,
}

impl ColumnRules {
    /// What a column becomes, by its name alone.
    ///
    /// # Errors
    /// The reason for which no property can have the name.
    pub(super) fn role(&self, name: &str) -> Result<Role, String> {
        if self.ignore.contains(name) {
            return Ok(Role::LeftOut);
        }
        let renamed = match (self.rename.get(name), &self.keep_timestamp) {
            (Some(renamed), _) => renamed,
            (None, Some(kept)) if name == TIMESTAMP => kept,
            _ if name == TIMESTAMP => return Ok(Role::Timestamp),
            _ if name.starts_with(METADATA) => return Ok(Role::LeftOut),
            _ => name,
        };
        match renamed {
            PARTITION_KEY => Ok(Role::PartitionKey),
            ROW_KEY => Ok(Role::RowKey),
            property => match name_problem(property) {
                Some(problem) => Err(problem),
                None => Ok(Role::Property(property.to_owned())),
            },
        }
    }

    /// The columns that the command line names.
    fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let renamed = self.rename.keys().map(|name| ("--rename", &**name));
        let ignored = self.ignore.iter().map(|name| ("--ignore", &**name));
        let kept = self
            .keep_timestamp
            .iter()
            .map(|_| ("--keep-timestamp", TIMESTAMP));
        renamed.chain(ignored).chain(kept)
    }
}

/// Why no property can have a name.
pub(crate) fn name_problem(name: &str) -> Option<String> {
    let mut properties = Properties::new();
    properties.push(name, ValueRef::Boolean(true), false);
    let key = Key::new("", "").ok()?;
    let insert = Operation::Insert(Entity::from_parts(key, properties));
    let refused = check_operation(&ServiceProfile::AZURE_TABLES, &insert).err()?;
    Some(match refused.kind() {
        ErrorKind::InvalidName { reason, .. } => reason.clone(),
        _ => refused.to_string(),
    })
}

/// Decides what the columns of a file become. Returns a role for each name, and remarks.
pub(super) fn roles(
    names: &[String],
    rules: &ColumnRules,
    keys: &KeyTemplates,
    repeats: Repeats,
) -> Result<(Vec<Role>, Vec<String>)> {
    let refused = |reason: String| {
        Err(Failure::misuse(format!(
            "{reason}; the file has {}",
            list(names)
        )))
    };
    if let Some(problem) = keys.problem() {
        return refused(problem.to_owned());
    }
    let all: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
    if let Some((option, name)) = rules.named().find(|(_, name)| !all.contains(name)) {
        return refused(format!(
            "{option} names the column {name:?}, which the file does not have"
        ));
    }
    let mut roles: Vec<_> = names.iter().map(|name| rules.role(name)).collect();
    let mut remarks = Vec::new();
    if keys.columns().is_none() {
        for (key, role) in [(PARTITION_KEY, Role::PartitionKey), (ROW_KEY, Role::RowKey)] {
            if roles.contains(&Ok(role.clone())) {
                continue;
            }
            let is_free =
                |name: &str| !rules.rename.contains_key(name) && !rules.ignore.contains(name);
            let alike = |(_, name): &(usize, &String)| is_free(name) && is_alike(name, key);
            let alike: Vec<_> = names.iter().enumerate().filter(alike).collect();
            match *alike {
                [] => {}
                [(at, name)] => {
                    remarks.push(format!("the column {name:?} is read as the {key}"));
                    roles[at] = Ok(role);
                }
                _ => {
                    return refused(format!(
                        "several columns have a name like {key}: give --rename 'COLUMN={key}'"
                    ));
                }
            }
        }
    }
    let mut targets = BTreeMap::<&str, &str>::new();
    // Columns that no property can be, by the reason.
    let mut unnamed = BTreeMap::<&str, Vec<String>>::new();
    for (name, role) in names.iter().zip(&roles) {
        let target = match role {
            Ok(role) => role.target(),
            Err(problem) => {
                unnamed
                    .entry(problem)
                    .or_default()
                    .push(format!("{name:?}"));
                None
            }
        };
        let Some(target) = target else { continue };
        let is_key = target == PARTITION_KEY || target == ROW_KEY;
        match targets.insert(target, name) {
            Some(other) if repeats == Repeats::Refused || is_key => {
                return refused(match other == name {
                    true => {
                        format!(
                            "two columns are called {name:?}: give one of them another name in the file"
                        )
                    }
                    false => format!("the columns {other:?} and {name:?} both become '{target}'"),
                });
            }
            _ => {}
        }
    }
    if !unnamed.is_empty() {
        let problem = |(problem, mut columns): (&str, Vec<String>)| {
            columns.truncate(LISTED);
            format!(
                "no property can be called {} ({problem})",
                columns.join(", ")
            )
        };
        return refused(format!(
            "{}: rename a column with --rename 'COLUMN=NAME', or leave it out with --ignore 'COLUMN'",
            unnamed
                .into_iter()
                .map(problem)
                .collect::<Vec<_>>()
                .join("; ")
        ));
    }
    let has = |target: &str| targets.contains_key(target);
    match keys.columns() {
        None => {
            let missing: Vec<_> = [PARTITION_KEY, ROW_KEY]
                .into_iter()
                .filter(|key| !has(key))
                .collect();
            if !missing.is_empty() {
                return refused(format!(
                    "the file has no column {}: give --partition-key and --row-key, with {{COLUMN}} for values of columns, or --rename 'COLUMN={}'",
                    missing.join(" and no column "),
                    missing[0]
                ));
            }
        }
        Some(read) => {
            if let Some(unknown) = read.iter().find(|column| !has(column)) {
                return refused(format!(
                    "a key template names the column '{unknown}', which the file does not have"
                ));
            }
            let lost = [PARTITION_KEY, ROW_KEY]
                .into_iter()
                .find(|key| has(key) && !read.contains(key));
            if let Some(key) = lost {
                return refused(format!(
                    "the file has a column {key}, and no key template names it, so its values would be lost: name it in a template, keep it as a \
                     property with --rename '{key}=NAME', or leave it out with --ignore {key}"
                ));
            }
        }
    }
    let roles = roles
        .into_iter()
        .map(|role| role.unwrap_or(Role::LeftOut))
        .collect();
    Ok((roles, remarks))
}

/// Whether a name is a key's in another case or with blanks, as other programs write it: `partitionKey`, `Partition Key`.
fn is_alike(name: &str, key: &str) -> bool {
    let letters = name
        .chars()
        .filter(|c| ![' ', '_', '-'].contains(c))
        .flat_map(char::to_lowercase);
    letters.eq(key.chars().flat_map(char::to_lowercase))
}

/// Lists columns in an error.
pub(super) fn list(names: &[String]) -> String {
    let mut unique = BTreeSet::new();
    let shown: Vec<_> = names
        .iter()
        .filter(|name| unique.insert(*name))
        .take(LISTED)
        .map(|name| format!("{name:?}"))
        .collect();
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match names {
        [] => "no columns".to_owned(),
        _ => format!("the columns {}{more}", shown.join(", ")),
    }
}
