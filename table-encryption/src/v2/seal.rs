use table_core::model::{Properties, PropertyRef, ValueRef};

use super::derive::{Scope, WriteKeys};
use super::header::{HEADER, Header, Listed};
use super::plain;
use crate::data_key::DataKey;

/// Encrypts the marked properties and adds the header. The salt must not have been used before.
pub(crate) fn seal(properties: &Properties, scope: Scope, key: &DataKey, salt: [u8; 32]) -> Properties {
    let keys = WriteKeys::derive(&key.secret, &salt, scope);
    let mut marked: Vec<PropertyRef<'_>> = properties.iter().filter(PropertyRef::is_encrypted).collect();
    // The position in this order is the nonce of a property, and `Header::parse` accepts no other order.
    marked.sort_unstable_by_key(PropertyRef::name);
    let (list, ciphertexts): (Vec<Listed>, Vec<Vec<u8>>) =
        marked.iter().enumerate().map(|(index, property)| encrypt(&keys, index, property)).unzip();
    let header = Header::signed(key.wrapping.clone(), salt, list, &keys);
    assemble(properties, &header, &ciphertexts)
}

fn encrypt(keys: &WriteKeys, index: usize, property: &PropertyRef<'_>) -> (Listed, Vec<u8>) {
    let (name, edm_type) = (property.name(), property.value().edm_type());
    let mut bytes = plain::encode(property.value());
    let tag = keys.encrypt(index, name, edm_type, &mut bytes);
    (Listed { name: name.into(), edm_type, tag }, bytes)
}

/// Assembles the properties in their order, with the header last.
fn assemble(properties: &Properties, header: &Header, ciphertexts: &[Vec<u8>]) -> Properties {
    let header_bytes = header.to_bytes();
    let mut out = Properties::with_capacity(properties.as_packed().len() + header_bytes.len() + 64);
    for property in properties {
        let encrypted = property.is_encrypted().then(|| header.find(property.name())).flatten();
        match encrypted {
            Some(index) => out.push(property.name(), ValueRef::Binary(&ciphertexts[index]), false),
            None => out.push(property.name(), property.value(), false),
        }
    }
    out.push(HEADER, ValueRef::Binary(&header_bytes), false);
    out
}
