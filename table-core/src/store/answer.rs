//! What an answer must satisfy, whichever service gave it.
//!
//! A store that answers with another row than the one asked for is damaged, behind a proxy that mixes connections up, or
//! hostile. Such an answer is an error: read-modify-write would make the other row's content permanent.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use super::{Error, ErrorKind, KeyOrder, Result, ServiceProfile};
use crate::model::{Entity, Key, TableName};
use crate::query::{Continuation, KeyBounds, Query, Range};

/// Checks that a point read was answered with the entity that was asked for.
///
/// # Errors
/// The entity has another key: [`ErrorKind::Service`].
pub fn check_entity(table: &TableName, asked: &Key, found: &Entity) -> Result<()> {
    if found.key() == asked {
        return Ok(());
    }
    let text = format!("the read of {asked} in '{table}' was answered with {}, another entity", found.key());
    Err(not_asked_for(text))
}

/// Checks that a page leads on: its continuation is not the one that the page itself was asked for by, which would be read
/// without end.
///
/// # Errors
/// It is the same one: [`ErrorKind::Service`].
pub fn check_progress(asked: Option<&Continuation>, found: Option<&Continuation>) -> Result<()> {
    if found.is_none() || asked != found {
        return Ok(());
    }
    Err(repeated())
}

/// Notices pages that lead in a circle, however long: a place is compared with one that is kept, and replaces it after
/// 1, 2, 4, 8… pages (Brent's algorithm). A service may give a place again that it could not leave in the time that it has,
/// without a row: a few times, that is no circle.
///
/// Of the place that is kept only a hash of 64 bits is: the chance of an error where there is none is 1 in 2^64 a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    kept: u64,
    pages: u32,
    /// How often the place was given again since it is kept, without a row in between.
    standstills: u8,
    has_rows: bool,
}

/// Empty pages that lead nowhere, in a row.
const STANDSTILLS: u8 = 16;

impl Progress {
    /// Takes note of where the next page starts, after a page of so many rows.
    ///
    /// # Errors
    /// It started there before: [`ErrorKind::Service`].
    pub(crate) fn note(&mut self, next: &Continuation, rows: usize) -> Result<()> {
        let place = BuildHasherDefault::<DefaultHasher>::default().hash_one(next);
        self.has_rows |= rows > 0;
        if self.pages > 0 && self.kept == place {
            self.standstills += 1;
            if self.has_rows || self.standstills > STANDSTILLS {
                return Err(repeated());
            }
        } else if self.pages == 0 || self.pages.is_power_of_two() {
            (self.kept, self.standstills, self.has_rows) = (place, 0, false);
        }
        self.pages = self.pages.saturating_add(1);
        Ok(())
    }
}

fn repeated() -> Error {
    not_asked_for("a continuation that was there before: the pages would have no end".to_owned())
}

/// Checks that the entities of a page have keys that the query can match, and that there are not more than it asks for.
///
/// Only keys are checked: which properties match is the service's answer alone. On a service that does not sort, whose order of
/// text is not documented (Azure Cosmos DB), a key with characters from U+D800 on is compared with equal keys only:
/// UTF-8, UTF-16 and code points order them differently.
///
/// # Errors
/// A key is outside of the query's [bounds](Query::bounds), or there are too many entities: [`ErrorKind::Service`].
pub fn check_page(
    profile: &ServiceProfile,
    table: &TableName,
    query: &Query,
    found: &[Entity],
) -> Result<()> {
    if let Some(top) = query.top.filter(|top| found.len() > *top) {
        let text = format!("a query of '{table}' for {top} entities was answered with {}", found.len());
        return Err(not_asked_for(text));
    }
    let bounds = query.bounds();
    if found.is_empty() || bounds == KeyBounds::ALL {
        return Ok(());
    }
    let sorts = profile.order == KeyOrder::Sorted;
    let is_outside = |entity: &&Entity| {
        let key = entity.key();
        is_outside(&bounds.partition, key.partition(), sorts) || is_outside(&bounds.row, key.row(), sorts)
    };
    found.iter().find(is_outside).map_or(Ok(()), |entity| {
        let text = format!("a query of '{table}' for {bounds} was answered with {}", entity.key());
        Err(not_asked_for(text))
    })
}

fn is_outside(range: &Range, text: &str, sorts: bool) -> bool {
    let is_certain = || sorts || range.is_empty() || range.as_single().is_some() || is_ordered_alike(text);
    !range.contains(text) && is_certain()
}

/// Whether every order of text puts this one at the same place.
fn is_ordered_alike(text: &str) -> bool {
    text.chars().all(|c| c < '\u{D7FF}')
}

fn not_asked_for(text: String) -> Error {
    ErrorKind::Service(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Filter, Position};

    fn table() -> TableName {
        TableName::new("People").unwrap()
    }

    fn entity(partition: &str, row: &str) -> Entity {
        Entity::new(partition, row).unwrap()
    }

    #[test]
    fn another_entity_is_refused() {
        let asked = Key::new("Sales", "1").unwrap();
        assert!(check_entity(&table(), &asked, &entity("Sales", "1")).is_ok());
        for (partition, row) in [("Sales", "2"), ("sales", "1"), ("", "1")] {
            let error = check_entity(&table(), &asked, &entity(partition, row)).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Service(_)), "{error}");
        }
    }

    fn check(profile: &ServiceProfile, filter: &Filter, partition: &str, row: &str) -> bool {
        let query = Query::new().with_filter(filter.clone());
        check_page(profile, &table(), &query, &[entity(partition, row)]).is_ok()
    }

    #[test]
    fn keys_outside_of_the_query_are_refused() {
        let sales = Filter::eq(Filter::PARTITION_KEY, "Sales");
        let rows = sales.clone().and(Filter::starts_with(Filter::ROW_KEY, "emp_"));
        let either = sales.clone().or(Filter::eq(Filter::PARTITION_KEY, "Tax"));
        for profile in [ServiceProfile::AZURE_TABLES, ServiceProfile::COSMOS_TABLE] {
            let ok = |filter: &Filter, partition: &str, row: &str| check(&profile, filter, partition, row);
            assert!(ok(&sales, "Sales", "x") && !ok(&sales, "Tax", "x"));
            assert!(ok(&rows, "Sales", "emp_1") && !ok(&rows, "Sales", "emq") && !ok(&rows, "Tax", "emp_1"));
            // An `or` is bounded by what surrounds both sides.
            assert!(ok(&either, "Tax", "x") && !ok(&either, "Zoo", "x"));
            assert!(ok(&Filter::eq("Age", 41), "any", "x") && ok(&!sales.clone(), "Tax", "x"));
            let never = sales.clone().and(Filter::eq(Filter::PARTITION_KEY, "Tax"));
            assert!(!ok(&never, "Sales", "x") && !ok(&never, "Tax", "x"));
        }
    }

    #[test]
    fn more_entities_than_asked_for_are_refused() {
        let found = [entity("p", "1"), entity("p", "2")];
        let check = |top| check_page(&ServiceProfile::LOCAL, &table(), &Query::new().with_top(top), &found);
        assert!(check(2).is_ok());
        assert!(matches!(check(1).unwrap_err().kind(), ErrorKind::Service(_)));
    }

    fn place(n: usize) -> Continuation {
        let position = Position { first: n.to_string(), second: None };
        Continuation::new(&ServiceProfile::LOCAL, &table(), &Query::new(), position)
    }

    #[test]
    fn pages_that_lead_in_a_circle_are_noticed_within_three_rounds() {
        assert!(
            check_progress(None, Some(&place(1))).is_ok() && check_progress(Some(&place(1)), None).is_ok()
        );
        assert!(
            check_progress(None, None).is_ok() && check_progress(Some(&place(1)), Some(&place(2))).is_ok()
        );
        assert!(check_progress(Some(&place(1)), Some(&place(1))).is_err());
        for (tail, circle) in [(0, 1), (0, 2), (5, 3), (100, 7), (3, 1000)] {
            let mut progress = Progress::default();
            let at = |n: usize| if n < tail { n } else { tail + (n - tail) % circle };
            let noticed = (0..).position(|n| progress.note(&place(at(n)), 1).is_err()).unwrap();
            assert!(
                noticed > tail + circle - 1 && noticed <= 3 * (tail + circle) + 3,
                "{tail} {circle}: {noticed}"
            );
        }
        let mut progress = Progress::default();
        assert!((0..10_000).all(|n| progress.note(&place(n), 1).is_ok()));
    }

    #[test]
    fn a_place_that_is_not_left_at_once_is_no_circle() {
        let mut progress = Progress::default();
        for n in 0..50 {
            assert!(
                (0..4).all(|_| progress.note(&place(n), 0).is_ok())
                    && progress.note(&place(n + 50), 1).is_ok()
            );
        }
        for (length, most) in [(1, 20), (3, 130)] {
            let mut progress = Progress::default();
            let noticed = (0..).position(|n| progress.note(&place(n % length), 0).is_err()).unwrap();
            assert!(noticed <= most, "{length}: {noticed}");
        }
    }

    /// U+1F600 is before U+FF5E in UTF-16, after it in UTF-8.
    #[test]
    fn an_order_that_is_not_documented_refuses_nothing() {
        let after = Filter::gt(Filter::ROW_KEY, "\u{FF5E}");
        assert!(!check(&ServiceProfile::AZURE_TABLES, &after, "p", "\u{1F600}"));
        assert!(check(&ServiceProfile::COSMOS_TABLE, &after, "p", "\u{1F600}"));
        assert!(!check(&ServiceProfile::COSMOS_TABLE, &after, "p", "a"));
        let one = Filter::eq(Filter::ROW_KEY, "\u{1F600}");
        assert!(!check(&ServiceProfile::COSMOS_TABLE, &one, "p", "\u{1F601}"));
    }
}
