use table_core::model::{ENCRYPTION_HEADERS, EdmType};

use super::bytes::{Reader, push_name, push_wrapping, read_wrapping};
use super::derive::{SUITE, WriteKeys};
use crate::data_key::Wrapping;

/// The property that holds the header.
pub(crate) const HEADER: &str = ENCRYPTION_HEADERS[0];

const VERSION: u8 = 2;

/// A stored header. Its claims are not verified yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) wrapping: Wrapping,
    pub(crate) salt: [u8; 32],
    pub(crate) commitment: [u8; 32],
    pub(crate) list: Vec<Listed>,
    pub(crate) mac: [u8; 32],
}

/// An encrypted property in the header's list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listed {
    pub(crate) name: Box<str>,
    pub(crate) edm_type: EdmType,
    pub(crate) tag: [u8; 16],
}

impl Header {
    /// Creates a header signed with the keys of its write. `list` must be sorted.
    pub(super) fn signed(wrapping: Wrapping, salt: [u8; 32], list: Vec<Listed>, keys: &WriteKeys) -> Self {
        let mut header = Self { wrapping, salt, commitment: *keys.commitment(), list, mac: [0; 32] };
        // The MAC covers everything before it: how the data key is wrapped, the salt, the commitment, and names, types and tags. So
        // no property can be left out, and no older ciphertext can take the place of a newer one, because its tag differs.
        header.mac = keys.mac(&header.unsigned_bytes());
        header
    }

    /// Returns the header with its data key wrapped differently.
    pub(crate) fn rewrapped(self, wrapping: Wrapping, keys: &WriteKeys) -> Self {
        // The data key and the salt stay, so the keys of the write and all ciphertexts stay valid. Only the MAC is new.
        Self::signed(wrapping, self.salt, self.list, keys)
    }

    /// Parses a header; `None` if its version is unknown or it is malformed.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        if (from.u8()?, from.u8()?) != (VERSION, SUITE) {
            return None;
        }
        let wrapping = read_wrapping(&mut from)?;
        let (salt, commitment, count) = (from.array()?, from.array()?, from.u16()?);
        let mut list: Vec<Listed> = Vec::new();
        for _ in 0..count {
            let listed = Listed::read(&mut from)?;
            // Strictly ascending: a name occurs once, so its index, which is its nonce, is unique. `find` relies on the order.
            if list.last().is_some_and(|last| *last.name >= *listed.name) {
                return None;
            }
            list.push(listed);
        }
        let mac = from.array()?;
        // No signature covers bytes after the MAC.
        from.0.is_empty().then_some(Self { wrapping, salt, commitment, list, mac })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.unsigned_bytes();
        bytes.extend_from_slice(&self.mac);
        bytes
    }

    /// Whether these keys signed the header.
    pub(crate) fn is_signed_by(&self, keys: &WriteKeys) -> bool {
        keys.verify(&self.commitment, &self.unsigned_bytes(), &self.mac)
    }

    fn unsigned_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION, SUITE];
        push_wrapping(&mut out, &self.wrapping);
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.commitment);
        out.extend_from_slice(&(self.list.len() as u16).to_be_bytes());
        for listed in &self.list {
            push_name(&mut out, &listed.name);
            out.push(listed.edm_type as u8);
            out.extend_from_slice(&listed.tag);
        }
        out
    }

    /// Returns the position of a property in the list.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.list.binary_search_by(|listed| (*listed.name).cmp(name)).ok()
    }
}

impl Listed {
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let len = from.u16()?;
        let name = from.text(usize::from(len))?.into();
        let edm_type = usize::from(from.u8()?);
        Some(Self { name, edm_type: *EdmType::ALL.get(edm_type)?, tag: from.array()? })
    }
}
