use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{PartSource, TemplatePart, Text};

/// A template of a key, with literals and parts: `email_{Email:text:lower}`.
///
/// [`str::parse`] parses it, and [`Display`](std::fmt::Display) formats it. `docs/manifest.md` lists the words.
///
/// ```
/// use table_core::manifest::KeyTemplate;
/// let template: KeyTemplate = "{Placed:time:desc}_{RowKey}".parse()?;
/// assert_eq!(template.to_string(), "{Placed:time:desc}_{RowKey:text}"); // the type is always written
/// assert!("{Placed:text:desc}".parse::<KeyTemplate>().is_err());
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyTemplate {
    segments: Cow<'static, [KeySegment]>,
}

/// A segment of a [`KeyTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySegment {
    /// Literal text.
    Literal(Text),
    /// A value of the entity.
    Part(TemplatePart),
}

impl KeyTemplate {
    /// Creates a template from constant segments. The derive macro has checked the rules.
    #[doc(hidden)]
    pub const fn from_static(segments: &'static [KeySegment]) -> Self {
        Self { segments: Cow::Borrowed(segments) }
    }

    /// Creates a template from segments.
    ///
    /// # Errors
    /// Fails if the end of a part could not be recognized in a key, or if a transform does not fit its value.
    pub fn new(segments: Vec<KeySegment>) -> Result<Self, String> {
        let template = Self { segments: Cow::Owned(segments) };
        template.problem().map_or(Ok(template), Err)
    }

    /// Returns the segments.
    pub fn segments(&self) -> &[KeySegment] {
        &self.segments
    }

    /// Iterates over the parts.
    pub fn parts(&self) -> impl Iterator<Item = &TemplatePart> {
        self.segments.iter().filter_map(|segment| match segment {
            KeySegment::Part(part) => Some(part),
            KeySegment::Literal(_) => None,
        })
    }

    /// Whether a key has the literals of the template, in their order. The values between them are not checked.
    pub fn fits(&self, key: &str) -> bool {
        let (mut rest, mut follows_part) = (key, false);
        for (at, segment) in self.segments.iter().enumerate() {
            let KeySegment::Literal(literal) = segment else {
                follows_part = true;
                continue;
            };
            let is_last = at + 1 == self.segments.len();
            let behind = match (follows_part, is_last) {
                (false, _) => rest.strip_prefix(&**literal),
                (true, true) => return rest.ends_with(&**literal),
                (true, false) => rest.split_once(&**literal).map(|(_, behind)| behind),
            };
            let Some(behind) = behind else { return false };
            (rest, follows_part) = (behind, false);
        }
        follows_part || rest.is_empty()
    }

    /// Returns the first character of the literal after a segment. It ends the segment in a key.
    pub(super) fn stop(&self, at: usize) -> Option<char> {
        match self.segments.get(at + 1) {
            Some(KeySegment::Literal(text)) => text.chars().next(),
            _ => None,
        }
    }

    /// Returns the literal at the start of every key.
    pub(super) fn prefix(&self) -> &str {
        match self.segments.first() {
            Some(KeySegment::Literal(text)) => text,
            _ => "",
        }
    }

    /// Returns the literal at the end of every key.
    pub(super) fn suffix(&self) -> &str {
        match self.segments.last() {
            Some(KeySegment::Literal(text)) => text,
            _ => "",
        }
    }

    /// Returns the number of characters of every key, if it is fixed.
    pub(super) fn width(&self) -> Option<usize> {
        let widths = self.segments.iter().map(|segment| match segment {
            KeySegment::Literal(text) => Some(text.chars().count()),
            KeySegment::Part(part) => part.key_width(),
        });
        widths.sum()
    }

    /// Whether a part has this source.
    pub(super) fn has(&self, source: &PartSource) -> bool {
        self.parts().any(|part| part.source == *source)
    }

    fn problem(&self) -> Option<String> {
        for (at, segment) in self.segments.iter().enumerate() {
            let KeySegment::Part(part) = segment else { continue };
            if let Some(problem) = part.problem() {
                return Some(format!("`{part}`: {problem}"));
            }
            if part.key_width().is_some() {
                continue;
            }
            let problem = match (self.segments.get(at + 1), self.stop(at)) {
                (None, _) => continue,
                // Nothing shows where the next part starts: ('ab', 'c') and ('a', 'bc') would have one key.
                (Some(KeySegment::Part(_)), _) => "has no fixed width: add a separator such as `_` after it",
                // An escape is `~` and two digits of this set (`model/key_part/escape.rs`). The reader ends the part
                // at the first separator, which could be in the middle of an escape.
                (_, Some('0'..='9' | 'A'..='F' | '~')) => {
                    "may be text, and the separator after it can be part of an escape: use another separator, such as `_`"
                }
                (_, Some(stop)) if !stop.is_ascii() => "needs an ASCII separator after it, such as `_`",
                _ => continue,
            };
            return Some(format!("`{part}` {problem}"));
        }
        let lists: Vec<_> = self.parts().filter(|part| part.each).map(|part| &part.source).collect();
        lists.windows(2).any(|two| two[0] != two[1]).then(|| "two lists in one key: use one list".to_owned())
    }
}
