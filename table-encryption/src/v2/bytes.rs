//! Length-prefixed encoding.

use crate::data_key::Wrapping;

fn push_u16(out: &mut Vec<u8>, bytes: &[u8]) {
    // A name has at most 255 UTF-16 units, 765 bytes; `Wrapping` bounds the others.
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a name of the list.
pub(super) fn push_name(out: &mut Vec<u8>, name: &str) {
    push_u16(out, name.as_bytes());
}

/// Appends algorithm, key id and wrapped key. Their lengths were checked when the wrapping was created.
pub(crate) fn push_wrapping(out: &mut Vec<u8>, wrapping: &Wrapping) {
    out.push(wrapping.algorithm.len() as u8);
    out.extend_from_slice(wrapping.algorithm.as_bytes());
    push_u16(out, wrapping.key_id.as_bytes());
    push_u16(out, &wrapping.wrapped);
}

pub(crate) fn read_wrapping(from: &mut Reader<'_>) -> Option<Wrapping> {
    let len = from.u8()?;
    let algorithm = from.text(usize::from(len)).filter(|a| !a.is_empty())?;
    let key_id = from.u16()?;
    let key_id = from.text(usize::from(key_id))?;
    let len = from.u16()?;
    let wrapped = from.take(usize::from(len))?;
    Some(Wrapping { algorithm: algorithm.into(), key_id: key_id.into(), wrapped: wrapped.into() })
}

/// Reads bytes from the front; every read checks the length.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn text(&mut self, len: usize) -> Option<&'a str> {
        std::str::from_utf8(self.take(len)?).ok()
    }
}
