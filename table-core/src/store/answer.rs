//! Checks of answers: a page or an entity must fit its request.
//!
//! A store may return a wrong row because it is damaged or hostile, or because a proxy confuses connections. The
//! answer is then refused: a read-modify-write would write the wrong row's content to the requested key.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use super::{Error, ErrorKind, KeyOrder, Result, ServiceProfile};
use crate::model::{Entity, Key, TableName};
use crate::query::{Continuation, KeyBounds, Query, Range};

/// Checks that a point read returned the requested entity.
///
/// # Errors
/// Fails if the entity has another key ([`ErrorKind::Service`]).
pub fn check_entity(table: &TableName, requested: &Key, found: &Entity) -> Result<()> {
    if found.key() == requested {
        return Ok(());
    }
    let text = format!(
        "another entity, {}, to the read of {requested} in '{table}'",
        found.key()
    );
    Err(wrong_answer(text))
}

/// Checks that a page with rows does not return the continuation of its request. Otherwise reading page after page would return the
/// same rows without end.
///
/// A service may return an empty page with the same continuation if it found no row in its time limit. Loops over pages bound such
/// repetitions.
///
/// # Errors
/// Fails if they are equal and the page has rows ([`ErrorKind::Service`]).
pub fn check_progress(
    requested: Option<&Continuation>,
    found: Option<&Continuation>,
    rows: usize,
) -> Result<()> {
    if found.is_none() || rows == 0 || requested != found {
        return Ok(());
    }
    Err(repeated_continuation())
}

/// Detects cycles of continuations of any length by Brent's algorithm: each continuation is compared with one remembered
/// continuation, which is replaced after 1, 2, 4, 8… pages.
///
/// A service may return an empty page with the same continuation if it found no row in its time limit. So a
/// few repetitions without rows are allowed.
///
/// Only a 64-bit hash of the continuation is remembered. The probability of a false error is 2^-64 per page.
#[derive(Clone, Debug, Default)]
pub struct CycleDetector {
    remembered: u64,
    pages: u32,
    /// How often the remembered continuation was returned again without a row in between.
    repetitions: u8,
    /// Whether a page had rows since the continuation was remembered.
    has_rows: bool,
}

/// Allowed repetitions of a continuation without rows.
const MAX_REPETITIONS: u8 = 16;

impl CycleDetector {
    /// Adds the continuation of a page with this number of rows: a [`Continuation`], or a text that names the place where the next page begins.
    ///
    /// # Errors
    /// Fails if the continuations form a cycle ([`ErrorKind::Service`]).
    pub fn add(&mut self, next: &(impl Hash + ?Sized), rows: usize) -> Result<()> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(next);
        self.has_rows |= rows > 0;
        if self.pages > 0 && self.remembered == hash {
            self.repetitions += 1;
            if self.has_rows || self.repetitions > MAX_REPETITIONS {
                return Err(repeated_continuation());
            }
        } else if self.pages == 0 || self.pages.is_power_of_two() {
            (self.remembered, self.repetitions, self.has_rows) = (hash, 0, false);
        }
        self.pages = self.pages.saturating_add(1);
        Ok(())
    }
}

fn repeated_continuation() -> Error {
    wrong_answer("a repeated continuation; the query would never end".to_owned())
}

/// Checks that the keys of a page's entities are within the bounds of the query, and that there are no more entities than
/// requested.
///
/// Only keys are checked; the service alone decides which properties match. Azure Cosmos DB does not document
/// its order of text. For such a service a key with a character from U+D800 on is compared for equality only,
/// because UTF-8, UTF-16 and code points order these characters differently.
///
/// # Errors
/// Fails if a key is outside of the query's [bounds](Query::bounds) or if there are too many entities
/// ([`ErrorKind::Service`]).
pub fn check_page(
    profile: &ServiceProfile,
    table: &TableName,
    query: &Query,
    found: &[Entity],
) -> Result<()> {
    if let Some(top) = query.top.filter(|top| found.len() > *top) {
        let text = format!("{} entities to a query of '{table}' for {top}", found.len());
        return Err(wrong_answer(text));
    }
    let bounds = query.bounds();
    if found.is_empty() || bounds == KeyBounds::ALL {
        return Ok(());
    }
    let sorts = profile.order == KeyOrder::Sorted;
    let is_outside = |entity: &&Entity| {
        let key = entity.key();
        is_outside(&bounds.partition, key.partition(), sorts)
            || is_outside(&bounds.row, key.row(), sorts)
    };
    found.iter().find(is_outside).map_or(Ok(()), |entity| {
        let text = format!(
            "the entity {} to a query of '{table}' for {bounds}",
            entity.key()
        );
        Err(wrong_answer(text))
    })
}

fn is_outside(range: &Range, text: &str, sorts: bool) -> bool {
    let is_certain =
        || sorts || range.is_empty() || range.as_single().is_some() || has_one_order(text);
    !range.contains(text) && is_certain()
}

/// Whether UTF-8, UTF-16 and code points sort this text at the same position.
fn has_one_order(text: &str) -> bool {
    text.chars().all(|c| c < '\u{D7FF}')
}

fn wrong_answer(text: String) -> Error {
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
        let rows = sales
            .clone()
            .and(Filter::starts_with(Filter::ROW_KEY, "emp_"));
        let either = sales.clone().or(Filter::eq(Filter::PARTITION_KEY, "Tax"));
        for profile in [ServiceProfile::AZURE_TABLES, ServiceProfile::COSMOS_TABLE] {
            let ok = |filter: &Filter, partition: &str, row: &str| {
                check(&profile, filter, partition, row)
            };
            assert!(ok(&sales, "Sales", "x") && !ok(&sales, "Tax", "x"));
            assert!(
                ok(&rows, "Sales", "emp_1")
                    && !ok(&rows, "Sales", "emq")
                    && !ok(&rows, "Tax", "emp_1")
            );
            // The bounds of an `or` are the smallest bounds that contain both sides.
            assert!(ok(&either, "Tax", "x") && !ok(&either, "Zoo", "x"));
            assert!(ok(&Filter::eq("Age", 41), "any", "x") && ok(&!sales.clone(), "Tax", "x"));
            let never = sales.clone().and(Filter::eq(Filter::PARTITION_KEY, "Tax"));
            assert!(!ok(&never, "Sales", "x") && !ok(&never, "Tax", "x"));
        }
    }

    #[test]
    fn more_entities_than_requested_are_refused() {
        let found = [entity("p", "1"), entity("p", "2")];
        let check = |top| {
            check_page(
                &ServiceProfile::LOCAL,
                &table(),
                &Query::new().with_top(top),
                &found,
            )
        };
        assert!(check(2).is_ok());
        assert!(matches!(
            check(1).unwrap_err().kind(),
            ErrorKind::Service(_)
        ));
    }

    fn continuation(n: usize) -> Continuation {
        let position = Position {
            first: n.to_string(),
            second: None,
        };
        Continuation::new(&ServiceProfile::LOCAL, &table(), &Query::new(), position)
    }

    #[test]
    fn a_page_with_the_continuation_of_its_request_is_refused() {
        let check = |requested: Option<usize>, found: Option<usize>, rows| {
            let (requested, found) = (requested.map(continuation), found.map(continuation));
            check_progress(requested.as_ref(), found.as_ref(), rows).is_ok()
        };
        assert!(check(None, None, 1) && check(None, Some(1), 1) && check(Some(1), None, 1));
        assert!(check(Some(1), Some(2), 1) && check(Some(1), Some(1), 0));
        assert!(!check(Some(1), Some(1), 1));
    }

    #[test]
    fn cycles_of_pages_are_detected_within_three_rounds() {
        for (before, cycle) in [(0, 1), (0, 2), (5, 3), (100, 7), (3, 1000)] {
            let mut detector = CycleDetector::default();
            let at = |n: usize| {
                if n < before {
                    n
                } else {
                    before + (n - before) % cycle
                }
            };
            let pages = (0..)
                .position(|n| detector.add(&continuation(at(n)), 1).is_err())
                .unwrap();
            assert!(pages > before + cycle - 1, "{before} {cycle}: {pages}");
            assert!(
                pages <= 3 * (before + cycle) + 3,
                "{before} {cycle}: {pages}"
            );
        }
        let mut detector = CycleDetector::default();
        assert!((0..10_000).all(|n| detector.add(&continuation(n), 1).is_ok()));
    }

    #[test]
    fn a_few_repetitions_without_rows_are_allowed() {
        let mut detector = CycleDetector::default();
        for n in 0..50 {
            assert!((0..4).all(|_| detector.add(&continuation(n), 0).is_ok()));
            assert!(detector.add(&continuation(n + 50), 1).is_ok());
        }
        for (length, limit) in [(1, 20), (3, 130)] {
            let mut detector = CycleDetector::default();
            let pages = (0..)
                .position(|n| detector.add(&continuation(n % length), 0).is_err())
                .unwrap();
            assert!(pages <= limit, "{length}: {pages}");
        }
    }

    /// U+1F600 is before U+FF5E in UTF-16 and after it in UTF-8.
    #[test]
    fn keys_are_not_refused_by_an_undocumented_order() {
        let after = Filter::gt(Filter::ROW_KEY, "\u{FF5E}");
        assert!(!check(
            &ServiceProfile::AZURE_TABLES,
            &after,
            "p",
            "\u{1F600}"
        ));
        assert!(check(
            &ServiceProfile::COSMOS_TABLE,
            &after,
            "p",
            "\u{1F600}"
        ));
        assert!(!check(&ServiceProfile::COSMOS_TABLE, &after, "p", "a"));
        let one = Filter::eq(Filter::ROW_KEY, "\u{1F600}");
        assert!(!check(
            &ServiceProfile::COSMOS_TABLE,
            &one,
            "p",
            "\u{1F601}"
        ));
    }
}
