//! The references of a list, as bytes.
//!
//! Format 1: the byte 1; then each key in the order of the service, without the prefix that it shares with the
//! key before. A key is written as the number of shared bytes, the number of other bytes (both as LEB128), and
//! the other bytes. A key is its sortable bytes ([`Key::to_sortable`]), so a shared PartitionKey costs 1 or 2
//! bytes. An unknown first byte is another format, which is refused.

use std::collections::BTreeSet;

use table_core::model::Key;

const FORMAT: u8 = 1;

/// A set of references, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(BTreeSet<Vec<u8>>);

impl Members {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.0.first().map(Vec::as_slice)
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.0.contains(&key.to_sortable())
    }

    /// The references; `None` if one is not a valid key.
    pub(crate) fn keys(&self) -> Option<Vec<Key>> {
        self.0
            .iter()
            .map(|bytes| Key::from_sortable(bytes))
            .collect()
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Applies a change; returns whether the references changed.
    pub(crate) fn apply(&mut self, change: &MemberChange) -> bool {
        let before = self.0.len();
        self.0.retain(|member| !change.remove.contains(member));
        // In two steps: a change that removes one reference and adds another keeps the number.
        let removed = before != self.0.len();
        let before = self.0.len();
        self.0.extend(change.add.iter().cloned());
        removed || before != self.0.len()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        let mut before: &[u8] = &[];
        for member in &self.0 {
            push(&mut out, before, member);
            before = member;
        }
        out
    }

    /// The format, if this version does not know it.
    pub(crate) fn other_format(bytes: &[u8]) -> Option<u8> {
        bytes.first().copied().filter(|format| *format != FORMAT)
    }

    /// Decodes references; `None` if the bytes have another format or are damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (format, mut rest) = bytes.split_first()?;
        let (mut members, mut before) = (BTreeSet::new(), Vec::new());
        while *format == FORMAT && !rest.is_empty() {
            let (common, other) = (number(&mut rest)?, number(&mut rest)?);
            let (other, after) = rest.split_at_checked(other)?;
            let mut member = before.get(..common)?.to_vec();
            member.extend_from_slice(other);
            // References are written in ascending order; anything else is damage.
            if !members.is_empty() && member <= before {
                return None;
            }
            members.insert(member.clone());
            (before, rest) = (member, after);
        }
        (*format == FORMAT).then_some(Self(members))
    }

    /// Divides the references into pieces of at most `bytes` each, all of similar size; a single reference may
    /// be longer.
    pub(crate) fn split(self, bytes: usize) -> Vec<Self> {
        let whole = self.encode().len();
        // Each piece is filled to two thirds, so that the next references do not split it again.
        let pieces = whole.div_ceil(bytes * 2 / 3).max(2);
        let target = whole.div_ceil(pieces);
        // 1 byte of format, with which each piece starts.
        let (mut all, mut piece, mut size) = (Vec::new(), Self::default(), 1);
        for member in self.0 {
            let before = piece.0.last().map_or(&[][..], Vec::as_slice);
            let more = length(before, &member);
            if !piece.is_empty() && (size >= target || size + more > bytes) {
                all.push(std::mem::take(&mut piece));
                size = 1 + length(&[], &member);
            } else {
                size += more;
            }
            piece.0.insert(member);
        }
        all.push(piece);
        all
    }
}

/// References to add and to remove.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberChange {
    pub(crate) add: BTreeSet<Vec<u8>>,
    pub(crate) remove: BTreeSet<Vec<u8>>,
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn push(out: &mut Vec<u8>, before: &[u8], member: &[u8]) {
    let common = common(before, member);
    push_number(out, common);
    push_number(out, member.len() - common);
    out.extend_from_slice(&member[common..]);
}

fn length(before: &[u8], member: &[u8]) -> usize {
    let mut out = Vec::new();
    push(&mut out, before, member);
    out.len()
}

/// Appends a number as LEB128.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        // The cast keeps the low 8 bits, and the continuation bit replaces the highest of them.
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a LEB128 number of at most 28 bits from the front.
pub(crate) fn number(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in [0, 7, 14, 21] {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(keys: impl IntoIterator<Item = (String, String)>) -> Members {
        Members(
            keys.into_iter()
                .map(|(p, r)| Key::new(p, r).unwrap().to_sortable())
                .collect(),
        )
    }

    #[test]
    fn round_trip_in_the_order_of_keys() {
        let all = members(
            (0..500)
                .rev()
                .map(|n| (format!("p{}", n % 3), format!("row_{n:05}é"))),
        );
        let bytes = all.encode();
        assert_eq!(Members::decode(&bytes), Some(all.clone()));
        let keys = all.keys().unwrap();
        assert!(keys.is_sorted());
        assert_eq!(keys.len(), 500);
        assert!(
            bytes.len() < 500 * 8,
            "shared prefixes are omitted: {}",
            bytes.len()
        );
        assert_eq!(
            Members::decode(&Members::default().encode()),
            Some(Members::default())
        );
    }

    #[test]
    fn decode_refuses_other_formats_and_damage() {
        let bytes = members([
            ("p".to_owned(), "a".to_owned()),
            ("p".to_owned(), "b".to_owned()),
        ])
        .encode();
        for end in 2..bytes.len() - 3 {
            assert_eq!(Members::decode(&bytes[..end]), None, "{end}");
        }
        assert_eq!(Members::decode(&[]), None);
        assert_eq!(Members::decode(&[2]), None);
        assert_eq!(
            Members::decode(&[1, 0, 1, 97, 0, 1, 97]),
            None,
            "a duplicate reference"
        );
        assert_eq!(
            Members::decode(&[1, 1, 1, 97]),
            None,
            "a shared prefix before the first reference"
        );
    }

    #[test]
    fn split_makes_pieces_within_the_limit() {
        let all =
            members((0..300).map(|n| ("p".to_owned(), format!("{n:04}{}", "x".repeat(n % 40)))));
        for bytes in [256, 300, 1000, 4000] {
            let pieces = all.clone().split(bytes);
            assert!(
                pieces.len() > 1 && pieces.iter().all(|p| p.encode().len() <= bytes),
                "{bytes}"
            );
            let mut joined = Members::default();
            pieces.into_iter().for_each(|p| joined.extend(p));
            assert_eq!(joined, all);
        }
    }
}
