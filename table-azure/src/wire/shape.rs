//! The entities of a page have mostly the same properties in the same order: what stood between the values of one is
//! likely to stand between those of the next, and then one comparison tells name and type.

use std::borrow::Cow;

use table_core::model::EdmType;
use table_core::store::limits;

use super::json::Json;

/// A member of an entity's object.
pub(super) enum Member<'a> {
    Partition,
    Row,
    Timestamp,
    ETag,
    /// A property and its annotated type.
    Property(Cow<'a, str>, Option<EdmType>),
    /// Something that nobody asked for.
    Other,
}

/// A member, and all of the text between the value before it and its own: separators, annotation, name.
struct Step<'a> {
    before: &'a str,
    member: Member<'a>,
}

/// The members of the last entity.
#[derive(Default)]
pub(super) struct Shape<'a> {
    steps: Vec<Step<'a>>,
    /// How many members of the current entity were as in the last.
    followed: usize,
    /// Whether each member so far stands by itself: its annotation, if any, is in the text before it.
    whole: bool,
}

/// Members that are kept. An entity has fewer, but for nulls, which stand for properties that were asked for.
const MAX_STEPS: usize = 2 * limits::CUSTOM_PROPERTIES;

impl<'a> Shape<'a> {
    /// An entity starts.
    pub(super) const fn start(&mut self) {
        (self.followed, self.whole) = (0, true);
    }

    /// The next member, if it is the one of the last entity: its value comes now.
    #[inline]
    pub(super) fn follow(&mut self, json: &mut Json<'a>) -> Option<&Member<'a>> {
        let step = self.steps.get(self.followed)?;
        json.passes(step.before).then(|| {
            self.followed += 1;
            &step.member
        })
    }

    /// Whether a property with this name was followed, or kept, in the current entity.
    pub(super) fn has_followed(&self, name: &str) -> bool {
        self.steps.iter().any(|step| matches!(&step.member, Member::Property(known, _) if known == name))
    }

    /// Whether a member was followed.
    pub(super) const fn is_followed(&self) -> bool {
        self.followed > 0
    }

    /// From here on the entity is another one than the last.
    pub(super) fn leave(&mut self) {
        self.steps.truncate(self.followed);
    }

    /// Keeps a member for the next entity. `alone` is whether no annotation waits for another one.
    pub(super) fn keep(&mut self, before: &'a str, member: Member<'a>, alone: bool) {
        self.whole &= alone && self.steps.len() < MAX_STEPS;
        if self.whole {
            self.steps.push(Step { before, member });
        }
    }
}
