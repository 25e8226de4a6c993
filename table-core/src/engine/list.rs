use crate::model::TableName;
use crate::profile::ServiceProfile;
use crate::query::{Continuation, Page, Position};

/// Builds a page of a listing of tables from `(identity, name)` pairs in the order of identities.
///
/// The prefix is compared with the identity: without case if the profile ignores case.
pub fn list_page<'a>(
    profile: &ServiceProfile,
    prefix: Option<&str>,
    names: impl Iterator<Item = (&'a str, &'a TableName)>,
) -> Page<TableName> {
    let wanted = prefix.unwrap_or_default();
    let wanted = if profile.case_sensitive_tables { wanted.to_owned() } else { wanted.to_ascii_lowercase() };
    // The identities are sorted, so the names with the prefix follow each other.
    let mut matching =
        names.skip_while(|(id, _)| *id < wanted.as_str()).take_while(|(id, _)| id.starts_with(&wanted));
    let items = matching.by_ref().take(profile.page_size).map(|(_, name)| name.clone()).collect();
    let position = |id: &str| Position { first: id.to_owned(), second: None };
    let continuation = matching.next().map(|(id, _)| Continuation::of_tables(prefix, position(id)));
    Page { items, continuation }
}
