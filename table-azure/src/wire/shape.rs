//! Predicts the members of an entity from the previous entity. The entities of a page mostly have the same
//! properties in the same order, so the text between two values is likely the same; then one comparison finds
//! name and type.

use std::borrow::Cow;

use table_core::model::EdmType;
use table_core::store::limits;

use super::json::Json;

/// A member of an entity's JSON object.
pub(super) enum Member<'a> {
    Partition,
    Row,
    Timestamp,
    ETag,
    /// A property and its annotated type.
    Property(Cow<'a, str>, Option<EdmType>),
    /// A member that is ignored.
    Other,
}

/// A member, and the text between the preceding value and its own value: separators, annotation, name.
struct Step<'a> {
    before: &'a str,
    member: Member<'a>,
}

/// The members of the previous entity.
#[derive(Default)]
pub(super) struct Shape<'a> {
    steps: Vec<Step<'a>>,
    /// How many members of the current entity equal the previous entity's so far.
    followed: usize,
    /// Whether each member so far is independent: its annotation, if any, is in the text directly before it.
    whole: bool,
}

/// Maximum number of members kept. Entities have fewer, except for nulls, which stand for selected properties
/// that the entity does not have.
const MAX_STEPS: usize = 2 * limits::CUSTOM_PROPERTIES;

/// Most entities have fewer members: the steps then need one allocation.
const FEW_STEPS: usize = 24;

impl<'a> Shape<'a> {
    /// Starts an entity.
    pub(super) const fn start(&mut self) {
        (self.followed, self.whole) = (0, true);
    }

    /// Returns the next member if it equals the previous entity's. Its value follows.
    #[inline]
    pub(super) fn follow(&mut self, json: &mut Json<'a>) -> Option<&Member<'a>> {
        let step = self.steps.get(self.followed)?;
        // `before` reaches from the previous value to this one. If it is the same text, then it is the same name with
        // the same annotation, and no other member is in between.
        json.skip_exact(step.before).then(|| {
            self.followed += 1;
            &step.member
        })
    }

    /// Whether a property with this name was followed or kept in the current entity.
    pub(super) fn has_followed(&self, name: &str) -> bool {
        self.steps.iter().any(|step| matches!(&step.member, Member::Property(known, _) if known == name))
    }

    /// Whether any member of the current entity was followed.
    pub(super) const fn is_followed(&self) -> bool {
        self.followed > 0
    }

    /// Stops the prediction: from here on the current entity differs from the previous one.
    pub(super) fn leave(&mut self) {
        // The steps that follow are of the previous entity; `keep` replaces them by those of this one.
        self.steps.truncate(self.followed);
    }

    /// Keeps a member for the next entity. `alone` says that no annotation is pending for another member.
    pub(super) fn keep(&mut self, before: &'a str, member: Member<'a>, alone: bool) {
        // An annotation that waits for a later value is not in the text before that value. Such an entity is not a
        // prediction for the next one, from this member on.
        self.whole &= alone && self.steps.len() < MAX_STEPS;
        if self.whole {
            if self.steps.is_empty() {
                self.steps.reserve(FEW_STEPS);
            }
            self.steps.push(Step { before, member });
        }
    }
}
