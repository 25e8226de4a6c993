use table_core::model::{Entity, Key, KeyBuilder, PartFormat, Shards, ValueRef};
use table_core::store::{Error, Result};

use super::definition::{Index, Placement};

const WHICH: &str = "index key";

/// A piece of a key.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Part { name: String, kind: Kind, stop: Option<char> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The value, as key parts of its type are written.
    Value,
    /// A whole number with so many digits.
    Digits(usize),
    /// The shard of the value's text.
    Shard(Shards),
}

/// A key made of texts and properties.
#[derive(Clone, Debug)]
struct Template(Vec<Piece>);

impl Index {
    /// An index whose keys are made by templates, of texts and properties in braces: a composite key. An
    /// entity that lacks one of the properties has no entry.
    ///
    /// | piece | writes |
    /// |---|---|
    /// | `{Name}` | the property as a key part of its type: text escaped, numbers so that they sort |
    /// | `{Name:06}` | a whole number, not negative, in 6 digits |
    /// | `{Name#16}` | the [shard](Shards) of a text among 16 |
    /// | `{PartitionKey}`, `{RowKey}` | the entity's own |
    ///
    /// Without a template for the PartitionKey it is the entity's. The templates are part of the definition:
    /// a change of them is noticed.
    ///
    /// ```
    /// use table_core::model::{Entity, TableName};
    /// use table_patterns::index::{Index, Placement};
    /// let by_name =
    ///     Index::keyed("name", Placement::OtherPartition, "name_{LastName#16}", "{LastName}_{Age:03}_{RowKey}")?;
    /// let ken = Entity::new("Sales", "empid_000223")?.with("LastName", "Kwok").with("Age", 41);
    /// let entry = by_name.entry(&TableName::new("Employees")?, &ken)?.unwrap();
    /// assert_eq!(entry.location.key.row(), "Kwok_041_empid_000223");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    ///
    /// A property that is to be encrypted cannot be part of a key, which is plain text: an entity that has one is refused, and so
    /// is the index where the store encrypts the property by a rule.
    ///
    /// # Errors
    /// A template cannot be read.
    pub fn keyed(name: &str, placement: Placement, partition: &str, row: &str) -> Result<Self> {
        let text = format!("{partition}|{row}");
        let (partition, row) = (Template::parse(partition)?, Template::parse(row)?);
        let parts = [&partition, &row].into_iter().flat_map(Template::parts).collect::<Vec<_>>();
        Ok(Self::new(name, placement, text, move |e| {
            let own = || Some(e.key().partition().to_owned());
            let partition = if partition.0.is_empty() { own() } else { partition.fill(e)? };
            let (Some(partition), Some(row)) = (partition, row.fill(e)?) else { return Ok(None) };
            Key::new(partition, row).map(Some)
        })
        .with_parts(parts))
    }
}

impl Template {
    fn parse(text: &str) -> Result<Self> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((literal, after)) = rest.split_once('{') {
            let bad = |why: &str| Error::invalid_key(WHICH, text, why);
            let (part, after) = after.split_once('}').ok_or_else(|| bad("a '{' is not closed"))?;
            if !literal.is_empty() {
                pieces.push(Piece::Text(literal.to_owned()));
            }
            let (name, kind) = kind(part).ok_or_else(|| {
                bad("write {Name}, {Name:06} for digits, or {Name#16} for a shard, 1 to 1000")
            })?;
            let stop = after.chars().next();
            if stop == Some('{') && matches!(kind, Kind::Value) {
                return Err(bad("put a text between two properties, so that they can be told apart"));
            }
            pieces.push(Piece::Part { name: name.to_owned(), kind, stop });
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The properties of an entity that keys hold.
    fn parts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Part { name, .. } => Some(name.clone()),
            Piece::Text(_) => None,
        })
    }

    /// The key of an entity; `None` if a property is absent.
    fn fill(&self, entity: &Entity) -> Result<Option<String>> {
        let mut key = KeyBuilder::new(WHICH, "");
        for piece in &self.0 {
            key = match piece {
                Piece::Text(text) => key.literal(text),
                Piece::Part { name, kind, stop } => {
                    let Some(value) = value(entity, name) else { return Ok(None) };
                    check_plain(entity, name)?;
                    write(key, name, value, *kind, PartFormat { width: None, stop: *stop })?
                }
            };
        }
        Ok(Some(key.finish()))
    }
}

/// The name and kind of what is in braces.
fn kind(part: &str) -> Option<(&str, Kind)> {
    let (name, kind) = if let Some((name, digits)) = part.split_once(':') {
        let digits = digits.strip_prefix('0')?.parse().ok().filter(|digits| (1..=20).contains(digits))?;
        (name, Kind::Digits(digits))
    } else if let Some((name, count)) = part.split_once('#') {
        (name, Kind::Shard(Shards::new(count.parse().ok()?).ok()?))
    } else {
        (part, Kind::Value)
    };
    (!name.is_empty()).then_some((name, kind))
}

fn value<'a>(entity: &'a Entity, name: &str) -> Option<ValueRef<'a>> {
    match name {
        "PartitionKey" => Some(ValueRef::String(entity.key().partition())),
        "RowKey" => Some(ValueRef::String(entity.key().row())),
        _ => entity.get(name),
    }
}

/// Refuses to write into a key what is to be encrypted, a hash of it included.
fn check_plain(entity: &Entity, name: &str) -> Result<()> {
    match entity.properties().find(name) {
        Some(p) if p.is_encrypted() => {
            let reason = "it is to be encrypted, and a key is plain text: make the key by a blind index";
            Err(Error::invalid_key(WHICH, name, reason))
        }
        _ => Ok(()),
    }
}

fn write(
    key: KeyBuilder,
    name: &str,
    value: ValueRef<'_>,
    kind: Kind,
    format: PartFormat,
) -> Result<KeyBuilder> {
    let refused = |why: &str| Error::invalid_key(WHICH, name, why);
    match (kind, value) {
        (Kind::Shard(shards), ValueRef::String(text)) => Ok(key.literal(&shards.partition("", text))),
        (Kind::Shard(_), _) => Err(refused("a shard is made of text")),
        (Kind::Digits(digits), ValueRef::Int32(_) | ValueRef::Int64(_)) => {
            let number = match value {
                ValueRef::Int32(number) => u64::try_from(number).ok(),
                ValueRef::Int64(number) => u64::try_from(number).ok(),
                _ => None,
            };
            let number =
                number.ok_or_else(|| refused("a negative number has no digits: leave the width out"))?;
            key.part(name, &number, PartFormat { width: Some(digits), ..format })
        }
        (Kind::Digits(_), _) => Err(refused("only a whole number has a width")),
        (Kind::Value, ValueRef::String(text)) => key.part(name, &text.to_owned(), format),
        (Kind::Value, ValueRef::Int32(number)) => key.part(name, &number, format),
        (Kind::Value, ValueRef::Int64(number)) => key.part(name, &number, format),
        (Kind::Value, ValueRef::Boolean(flag)) => key.part(name, &flag, format),
        (Kind::Value, ValueRef::DateTime(moment)) => key.part(name, &moment, format),
        (Kind::Value, ValueRef::Guid(id)) => key.part(name, &id, format),
        (Kind::Value, other) => {
            let reason = format!("an {} cannot be part of a key", other.edm_type());
            Err(Error::invalid_key(WHICH, name, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use table_core::model::TableName;

    use super::*;

    fn row(template: &str, entity: &Entity) -> Result<Option<String>> {
        let index = Index::keyed("i", Placement::SamePartition, "", template)?;
        let entry = index.entry(&TableName::new("People").unwrap(), entity)?;
        Ok(entry.map(|entry| entry.location.key.row().to_owned()))
    }

    #[test]
    fn keys_are_made_of_texts_and_properties() {
        let e = Entity::new("p", "r1").unwrap().with("Name", "a_b").with("Age", 7).with("Big", -1i64);
        let row = |template: &str| row(template, &e).unwrap();
        assert_eq!(row("x_{Name}_{RowKey}").unwrap(), "x_a~5Fb_r1");
        assert_eq!(row("{Age:03}-{Name}").unwrap(), "007-a_b");
        assert_eq!(row("{Missing}_{RowKey}"), None);
        assert!(row("{Big}_").unwrap() < row("{Big}_{RowKey}").unwrap());
        assert!(row("{Name#16}{Name}").unwrap().ends_with("a_b"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let e = Entity::new("p", "r1").unwrap().with("Age", -7).with("Half", 0.5);
        let refused = |template: &str, why: &str| {
            let error = row(template, &e).unwrap_err().to_string();
            assert!(error.contains(why), "{template}: {error}");
        };
        refused("{Age", "not closed");
        refused("{}", "write {Name}");
        refused("{Age:6}", "write {Name}");
        refused("{Age#0}", "write {Name}");
        refused("{Name}{Age}", "told apart");
        refused("{Age:03}", "negative");
        refused("{Half}", "Edm.Double");
        refused("{RowKey:03}", "whole number");
    }

    /// Neither as it is nor as a shard; a property of the same name as a key is none of its parts.
    #[test]
    fn an_encrypted_property_is_no_part_of_a_key() {
        let e =
            Entity::new("p", "r1").unwrap().with_encrypted("Secret", "s3cr3t").with_encrypted("RowKey2", 1);
        for template in ["{Secret}_{RowKey}", "{Secret#16}{RowKey}", "{RowKey2:03}"] {
            let error = row(template, &e).unwrap_err().to_string();
            assert!(error.contains("blind index") && !error.contains("s3cr3t"), "{error}");
        }
        assert_eq!(row("x_{RowKey}", &e).unwrap().unwrap(), "x_r1");
        let index = Index::keyed("i", Placement::SamePartition, "{Secret#16}", "{Age:03}_{RowKey}").unwrap();
        assert_eq!(index.parts(), ["Secret", "Age", "RowKey"]);
    }
}
