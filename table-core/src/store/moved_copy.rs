use crate::error::{Error, Outcome, Result};
use crate::model::{ETag, Key};

/// The error of a move to the same key of the same table: the move would delete the entity that it has just written.
#[doc(hidden)]
pub fn own_key_error(key: &Key) -> Error {
    Error::misuse(format!(
        "{key} cannot be moved to its own key: give another key or table"
    ))
}

/// The copy that a move of two writes has written at its target. The move deletes the source next; if that fails, it removes the copy.
///
/// The removal is conditional on the version of the copy: what another writer has written over the copy stays.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedCopy {
    version: Option<ETag>,
    has_replaced: bool,
}

impl MovedCopy {
    /// Creates the copy of a write that did not read the target: it may have replaced an entity.
    pub const fn over_anything(version: Option<ETag>) -> Self {
        Self {
            version,
            has_replaced: true,
        }
    }

    /// Creates the copy of a write over the entity in the version `replaced`, or over none. `earlier` is the copy that the last attempt has written.
    pub fn over(replaced: Option<&ETag>, version: Option<ETag>, earlier: Option<&Self>) -> Self {
        let is_earlier = earlier.is_some_and(|earlier| earlier.version.as_ref() == replaced);
        let has_replaced = earlier.is_some_and(|earlier| earlier.has_replaced)
            || !(replaced.is_none() || is_earlier);
        Self {
            version,
            has_replaced,
        }
    }

    /// Removes the copy of a move that failed with `error`, and returns the error of the move. `remove` deletes the copy in the version that it gets.
    ///
    /// The copy stays if the move may have deleted the source. Otherwise, the error is *not applied* if the target is as it was before the move.
    pub async fn remove_after<W, F>(self, error: Error, remove: impl FnOnce(ETag) -> F) -> Error
    where
        F: Future<Output = Result<W>>,
    {
        if error.outcome() != Outcome::NotApplied {
            return error;
        }
        let removal = match self.version.clone() {
            Some(version) => Some(remove(version).await),
            None => None,
        };
        self.removed(removal, error)
    }

    /// Returns the error of a move after `removal` of the copy; `None` if there was nothing to remove the copy by.
    fn removed<W>(&self, removal: Option<Result<W>>, error: Error) -> Error {
        let failure = match removal {
            Some(Ok(_)) => None,
            // Another writer has changed or deleted the copy, so nothing of the move is left at the target.
            Some(Err(failed)) if failed.is_certainly_missing() => None,
            Some(Err(failed)) => Some(failed.to_string()),
            None => Some("the answer of its write had no ETag".to_owned()),
        };
        match failure {
            None if !self.has_replaced => error,
            None => error.with_outcome(Outcome::Applied),
            Some(why) => error
                .with_outcome(Outcome::Applied)
                .with_source(format!("the move has left a copy at its target: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etag(text: &str) -> ETag {
        ETag::from(text)
    }

    fn missing() -> Error {
        Error::entity_not_found("Table", "key")
    }

    /// A copy over another writer's entity cannot give it back; a copy over the copy of the last attempt can.
    #[test]
    fn a_removal_says_whether_the_target_is_as_before() {
        let first = MovedCopy::over(None, Some(etag("1")), None);
        let second = MovedCopy::over(first.version.as_ref(), Some(etag("2")), Some(&first));
        for copy in [&first, &second] {
            let error = copy.removed(Some(Ok(())), missing());
            assert_eq!(error.outcome(), Outcome::NotApplied);
            let gone = copy.removed::<()>(Some(Err(missing())), missing());
            assert_eq!(gone.outcome(), Outcome::NotApplied);
        }
        let over_another = MovedCopy::over(Some(&etag("9")), Some(etag("3")), Some(&second));
        let after = MovedCopy::over(
            over_another.version.as_ref(),
            Some(etag("4")),
            Some(&over_another),
        );
        for copy in [
            over_another,
            after,
            MovedCopy::over_anything(Some(etag("5"))),
        ] {
            let error = copy.removed(Some(Ok(())), missing());
            assert!(
                error.is_entity_not_found() && error.outcome() == Outcome::Applied,
                "{error}"
            );
        }
    }

    #[test]
    fn an_error_tells_of_a_copy_that_stays() {
        let copy = MovedCopy::over(None, None, None);
        let failed = Error::application("refused");
        for (removal, why) in [(None, "no ETag"), (Some(Err::<(), _>(failed)), "refused")] {
            let error = copy.removed(removal, missing());
            assert_eq!(error.outcome(), Outcome::Applied);
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(
                source.contains("left a copy") && source.contains(why),
                "{source}"
            );
        }
    }
}
