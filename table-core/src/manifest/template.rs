use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{PartSource, TemplatePart, Text};

/// A key as texts and parts: `email_{Email:text:lower}`.
///
/// [`str::parse`] reads it, [`Display`](std::fmt::Display) writes it; `docs/manifest.md` lists the words.
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

/// A piece of a [`KeyTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySegment {
    /// Text, as it is.
    Literal(Text),
    /// A value of the entity.
    Part(TemplatePart),
}

impl KeyTemplate {
    /// A template whose rules were checked when the program was compiled.
    #[doc(hidden)]
    pub const fn from_static(segments: &'static [KeySegment]) -> Self {
        Self { segments: Cow::Borrowed(segments) }
    }

    /// A template of these pieces.
    ///
    /// # Errors
    /// What could not be told apart in a key, or a transform of a value that has none.
    pub fn new(segments: Vec<KeySegment>) -> Result<Self, String> {
        let template = Self { segments: Cow::Owned(segments) };
        template.problem().map_or(Ok(template), Err)
    }

    /// The pieces.
    pub fn segments(&self) -> &[KeySegment] {
        &self.segments
    }

    /// The parts.
    pub fn parts(&self) -> impl Iterator<Item = &TemplatePart> {
        self.segments.iter().filter_map(|segment| match segment {
            KeySegment::Part(part) => Some(part),
            KeySegment::Literal(_) => None,
        })
    }

    /// The first character of the literal text after a piece: it ends the piece.
    pub(super) fn stop(&self, at: usize) -> Option<char> {
        match self.segments.get(at + 1) {
            Some(KeySegment::Literal(text)) => text.chars().next(),
            _ => None,
        }
    }

    /// The literal text that every key starts with.
    pub(super) fn prefix(&self) -> &str {
        match self.segments.first() {
            Some(KeySegment::Literal(text)) => text,
            _ => "",
        }
    }

    /// The literal text that every key ends with.
    pub(super) fn suffix(&self) -> &str {
        match self.segments.last() {
            Some(KeySegment::Literal(text)) => text,
            _ => "",
        }
    }

    /// The characters of every key, if they do not vary.
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
                (Some(KeySegment::Part(_)), _) => "has no fixed width: put a text such as `_` after it",
                (_, Some('0'..='9' | 'A'..='F' | '~')) => {
                    "may be text, where that separator can be part of an escape: use another such as `_`"
                }
                (_, Some(stop)) if !stop.is_ascii() => "is ended by a separator in ASCII, such as `_`",
                _ => continue,
            };
            return Some(format!("`{part}` {problem}"));
        }
        let lists: Vec<_> = self.parts().filter(|part| part.each).map(|part| &part.source).collect();
        lists.windows(2).any(|two| two[0] != two[1]).then(|| "two lists in one key".to_owned())
    }
}
