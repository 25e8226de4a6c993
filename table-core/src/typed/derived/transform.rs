//! Transforms of values in key templates.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::Arc;

use chrono::{DateTime, NaiveDateTime, Utc};

use crate::manifest::{first_chars, lowercase};
use crate::model::{Hour, KeyPart, KeyPartType, Ticks};

/// A calendar day.
pub type Day = chrono::NaiveDate;

/// Text, for the transforms `:lower` and `:prefix`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not text, so a template cannot take its lower case or its first characters",
    note = "`:lower` and `:prefix` are for `String`, `Box<str>`, `Arc<str>` and `Cow<'static, str>`"
)]
pub trait TextPart: AsRef<str> {}

impl TextPart for String {}
impl TextPart for Box<str> {}
impl TextPart for Arc<str> {}
impl TextPart for Cow<'static, str> {}

/// A time, for the fields `#[expires]` and `#[deleted_at]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a time at which an entity expires or is deleted",
    note = "`#[expires]` and `#[deleted_at]` are for `DateTime<Utc>`, `NaiveDateTime`, `Ticks`, or an `Option` of one"
)]
pub trait ExpiryTime {
    /// Converts to a stored time.
    fn to_ticks(&self) -> Ticks;

    /// Converts from a stored time.
    fn from_ticks(time: Ticks) -> Self;
}

impl ExpiryTime for DateTime<Utc> {
    fn to_ticks(&self) -> Ticks {
        (*self).into()
    }

    fn from_ticks(time: Ticks) -> Self {
        time.to_datetime()
    }
}

impl ExpiryTime for NaiveDateTime {
    fn to_ticks(&self) -> Ticks {
        (*self).into()
    }

    fn from_ticks(time: Ticks) -> Self {
        time.to_naive()
    }
}

impl ExpiryTime for Ticks {
    fn to_ticks(&self) -> Ticks {
        *self
    }

    fn from_ticks(time: Ticks) -> Self {
        time
    }
}

/// A time, for the transforms `:date` and `:hour`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a time, so a template cannot take its day or its hour",
    note = "`:date` and `:hour` are for `DateTime<Utc>`, `NaiveDateTime` and `Ticks`"
)]
pub trait TimePart {
    /// Returns the time.
    fn time(&self) -> DateTime<Utc>;
}

impl TimePart for DateTime<Utc> {
    fn time(&self) -> DateTime<Utc> {
        *self
    }
}

impl TimePart for NaiveDateTime {
    fn time(&self) -> DateTime<Utc> {
        self.and_utc()
    }
}

impl TimePart for Ticks {
    fn time(&self) -> DateTime<Utc> {
        self.to_datetime()
    }
}

/// An element of a list that gives one key per element. A program without the Rust type can read the elements from the JSON
/// of the list.
#[diagnostic::on_unimplemented(
    message = "the elements of a list in a key are text, integers or `bool`, not `{Self}`",
    note = "keep such a list as a list of text for the index"
)]
pub trait ListElement: KeyPart {
    /// The type of the elements in JSON.
    const ELEMENT: KeyPartType;
}

macro_rules! elements {
    ($($element:ty),*) => {$(
        impl ListElement for $element {
            const ELEMENT: KeyPartType = <$element as KeyPart>::PART_TYPE;
        }
    )*};
}

elements!(
    String,
    Box<str>,
    Arc<str>,
    Cow<'static, str>,
    bool,
    u8,
    u16,
    u32,
    u64,
    i8,
    i16,
    i32,
    i64
);

/// `{name:lower}`.
pub fn lower<T: TextPart>(text: &T) -> String {
    lowercase(text.as_ref())
}

/// `{name:prefix(3)}`.
pub fn prefix<T: TextPart>(text: &T, count: u32) -> String {
    first_chars(text.as_ref(), count).to_owned()
}

/// `{at:date}`.
pub fn date<T: TimePart>(time: &T) -> Day {
    time.time().date_naive()
}

/// `{at:hour}`.
pub fn hour<T: TimePart>(time: &T) -> Hour {
    Hour::of(Ticks::from(time.time()))
}

/// Returns the bounds of a range in descending order.
pub fn descending<T>((from, to): (Bound<T>, Bound<T>)) -> (Bound<Reverse<T>>, Bound<Reverse<T>>) {
    (to.map(Reverse), from.map(Reverse))
}
