use syn::{Ident, LitStr};

/// A parsed key template: `"empid_{id:06}"`.
#[derive(Clone)]
pub(crate) struct Template {
    /// The literal as written.
    pub(crate) text: LitStr,
    pub(crate) segments: Vec<Segment>,
}

#[derive(Clone)]
pub(crate) enum Segment {
    Literal(String),
    Part(Part),
}

#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) field: Ident,
    /// Whether the field is a list, with a key per element.
    pub(crate) each: bool,
    /// The transforms of the value, in order.
    pub(crate) transforms: Vec<Transform>,
    /// The width set by the template.
    pub(crate) width: Option<usize>,
    /// The number of shards. If set, the part is the value's shard.
    pub(crate) shards: Option<u16>,
}

/// A transform of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transform {
    Lower,
    Prefix(u32),
    Date,
    Hour,
    Descending,
}

impl Transform {
    fn display(self) -> String {
        match self {
            Self::Lower => "lower".to_owned(),
            Self::Prefix(count) => format!("prefix({count})"),
            Self::Date => "date".to_owned(),
            Self::Hour => "hour".to_owned(),
            Self::Descending => "desc".to_owned(),
        }
    }
}

impl Part {
    /// The untransformed value of a field.
    pub(crate) fn of(field: Ident) -> Self {
        Self {
            field,
            each: false,
            transforms: Vec::new(),
            width: None,
            shards: None,
        }
    }

    /// Whether different values always give different texts, so that the text identifies the value. Descending order keeps
    /// that; the other transforms and a shard give many values one text.
    pub(crate) fn identifies_value(&self) -> bool {
        self.shards.is_none() && self.transforms.iter().all(|t| *t == Transform::Descending)
    }

    /// Returns the number of first characters that are written; `None` for all.
    pub(crate) fn prefix(&self) -> Option<u32> {
        self.transforms
            .iter()
            .find_map(|transform| match transform {
                Transform::Prefix(count) => Some(*count),
                _ => None,
            })
    }
}

/// Maximum number of shards; the library has the same limit.
const MAX_SHARDS: u16 = 1000;

/// Number of digits of the largest `u64`.
const MAX_DIGITS: usize = 20;

impl Template {
    /// Parses a whole template.
    pub(crate) fn parse(text: &LitStr) -> Result<Self, String> {
        Self::with(text, |name| {
            let name = name.strip_prefix("r#").unwrap_or(name);
            // A template names a field without `r#`, but a keyword such as `type` is an identifier only with it.
            let raw = syn::parse_str::<Ident>(name).is_err();
            let parsed = if raw {
                format!("r#{name}")
            } else {
                name.to_owned()
            };
            let mut ident = syn::parse_str::<Ident>(&parsed).map_err(|_| {
                format!("`{{{name}}}` must name a field, as in `{{id}}` or `{{id:06}}`")
            })?;
            ident.set_span(text.span());
            Ok(ident)
        })
    }

    /// Parses the format of one field, in which the part has no name: `"empid_{:06}"`.
    pub(crate) fn parse_format(text: &LitStr, field: &Ident) -> Result<Self, String> {
        let template = Self::with(text, |name| match name {
            "" => Ok(field.clone()),
            _ => Err(format!(
                "write `{{}}` for the field itself; for several fields use `#[entity(row_key = …)]`, not `{name}`"
            )),
        })?;
        match template.parts().count() {
            1 => Ok(template),
            n => Err(format!(
                "the format of a field has the field once, as in `\"empid_{{:06}}\"`, not {n} times"
            )),
        }
    }

    /// Returns the template of a field without a format: only its value.
    pub(crate) fn of_field(field: &Ident) -> Self {
        let text = LitStr::new(&format!("{{{}}}", plain(field)), field.span());
        Self {
            text,
            segments: vec![Segment::Part(Part::of(field.clone()))],
        }
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.segments.iter().filter_map(|s| match s {
            Segment::Part(part) => Some(part),
            Segment::Literal(_) => None,
        })
    }

    /// Returns the part that is a shard, if any.
    pub(crate) fn shard(&self) -> Option<&Part> {
        self.parts().find(|part| part.shards.is_some())
    }

    /// Returns the literal text at the start.
    pub(crate) fn prefix(&self) -> Option<&str> {
        match self.segments.first() {
            Some(Segment::Literal(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the literal text after a segment.
    pub(crate) fn text_after(&self, index: usize) -> Option<&str> {
        match self.segments.get(index + 1) {
            Some(Segment::Literal(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the template with its fields named, for messages.
    pub(crate) fn display(&self) -> String {
        self.segments.iter().map(Self::display_of).collect()
    }

    /// Returns the template without the names and widths of its fields.
    pub(crate) fn outline(&self) -> String {
        let outline = |segment: &Segment| match segment {
            Segment::Literal(_) => Self::display_of(segment),
            Segment::Part(_) => "{}".to_owned(),
        };
        self.segments.iter().map(outline).collect()
    }

    /// Returns one segment as written.
    pub(crate) fn display_of(segment: &Segment) -> String {
        match segment {
            Segment::Literal(text) => text.replace('{', "{{").replace('}', "}}"),
            Segment::Part(Part {
                field,
                each,
                transforms,
                width,
                shards,
            }) => {
                let list = if *each { "[]" } else { "" };
                let words: String = transforms
                    .iter()
                    .map(|t| format!(":{}", t.display()))
                    .collect();
                let width = width.map(|n| format!(":0{n}")).unwrap_or_default();
                let shards = shards.map(|n| format!("#{n}")).unwrap_or_default();
                format!("{{{}{list}{words}{width}{shards}}}", plain(field))
            }
        }
    }

    fn with(text: &LitStr, field: impl Fn(&str) -> Result<Ident, String>) -> Result<Self, String> {
        let value = text.value();
        let (mut segments, mut literal, mut rest) = (Vec::new(), String::new(), value.as_str());
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..];
            // As in format strings of Rust, a doubled brace is a literal brace.
            if let Some(after) = brace
                .strip_prefix("{{")
                .or_else(|| brace.strip_prefix("}}"))
            {
                literal.push_str(&brace[..1]);
                rest = after;
                continue;
            }
            let inner = brace
                .strip_prefix('{')
                .ok_or("a `}` without `{`; write `}}` for a literal brace")?;
            let (inner, after) = inner
                .split_once('}')
                .ok_or("a `{` without `}`; write `{{` for a literal brace")?;
            push_literal(&mut segments, std::mem::take(&mut literal))?;
            segments.push(Segment::Part(part(inner, &field)?));
            rest = after;
        }
        literal.push_str(rest);
        push_literal(&mut segments, literal)?;
        let template = Self {
            text: text.clone(),
            segments,
        };
        // A key that starts with a field needs no check: text is escaped in keys, and an escape such as `~7E` never
        // gives `~~`.
        if template.prefix().is_some_and(|text| text.starts_with('~')) {
            return Err(
                "a key cannot start with `~`: keys with `~~` are reserved for the library's own rows, which queries do not return; start with another character"
                    .to_owned(),
            );
        }
        Ok(template)
    }
}

/// Returns the name of a field without `r#`.
pub(crate) fn plain(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").unwrap_or(&name).to_owned()
}

fn push_literal(segments: &mut Vec<Segment>, text: String) -> Result<(), String> {
    // https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#characters-disallowed-in-key-fields
    let forbidden = |c: char| matches!(c, '/' | '\\' | '#' | '?') || c.is_control();
    if let Some(bad) = text.chars().find(|c| forbidden(*c)) {
        return Err(format!(
            "a key cannot hold {bad:?}; use another character such as `_`"
        ));
    }
    if !text.is_empty() {
        segments.push(Segment::Literal(text));
    }
    Ok(())
}

fn part(text: &str, field: impl Fn(&str) -> Result<Ident, String>) -> Result<Part, String> {
    // First, because the number of shards follows all words.
    let shards_at = text.rsplit_once('#');
    // The `#` of `r#type` belongs to the name.
    let (text, shards) = match shards_at.filter(|(name, _)| *name != "r") {
        Some((text, count)) => (text, Some(shards(count)?)),
        None => (text, None),
    };
    let mut words = text.split(':');
    let name = words.next().unwrap_or_default();
    let (name, each) = name
        .strip_suffix("[]")
        .map_or((name, false), |name| (name, true));
    let mut part = Part {
        each,
        shards,
        ..Part::of(field(name)?)
    };
    for word in words {
        match (transform(word)?, part.transforms.last()) {
            (_, Some(Transform::Descending)) if !word.starts_with('0') => {
                return Err(format!("`:desc` comes last: move `:{word}` before it"));
            }
            (Some(transform), _) => part.transforms.push(transform),
            (None, _) if shards.is_some() => {
                return Err(format!("a shard has no width: remove `:{word}`"));
            }
            (None, _) if part.width.is_some() => {
                return Err(format!("`:{word}` is a second width; remove it"));
            }
            (None, _) => part.width = Some(width(word)?),
        }
    }
    if part.shards.is_some() && part.transforms.contains(&Transform::Descending) {
        return Err("a shard has no order: remove `:desc`".to_owned());
    }
    Ok(part)
}

/// Returns the transform with this name; `None` for a width.
fn transform(word: &str) -> Result<Option<Transform>, String> {
    Ok(Some(match word {
        "lower" => Transform::Lower,
        "date" => Transform::Date,
        "hour" => Transform::Hour,
        "desc" => Transform::Descending,
        _ => match word
            .strip_prefix("prefix(")
            .and_then(|word| word.strip_suffix(')'))
        {
            Some(count) => {
                let chars = count.parse().ok().filter(|count| *count > 0);
                Transform::Prefix(chars.ok_or_else(|| {
                    format!("`:{word}` is not a prefix; write `:prefix(3)` for the first three characters")
                })?)
            }
            None if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                return Err(format!(
                    "`:{word}` is not a transform; write `:lower`, `:prefix(3)`, `:date`, `:hour`, `:desc`, or `:06` for \
                     six digits"
                ));
            }
            None => return Ok(None),
        },
    }))
}

fn shards(count: &str) -> Result<u16, String> {
    let shards = count
        .parse()
        .ok()
        .filter(|count| (1..=MAX_SHARDS).contains(count));
    shards.ok_or_else(|| {
        format!("`#{count}` is not a number of shards; write `#16`, at most `#{MAX_SHARDS}`")
    })
}

fn width(format: &str) -> Result<usize, String> {
    let digits = format
        .strip_prefix('0')
        .filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
    let width = digits
        .and_then(|d| d.parse().ok())
        .filter(|n| (1..=MAX_DIGITS).contains(n));
    width.ok_or_else(|| {
        format!("`:{format}` is not a width; write `:06` for six digits, at most `:0{MAX_DIGITS}`")
    })
}
