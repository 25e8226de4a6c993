use table_core::model::{Properties, ValueRef};
use table_core::query::Select;

use super::derive::{Scope, WriteKeys};
use super::header::{HEADER, Header, Listed};
use super::plain;
use crate::data_key::Secret;
use crate::error::Unreadable;

/// Verifies the header and decrypts the properties in its list: all, or the properties of a projection. The result has
/// the properties marked and no header.
pub(crate) fn open(
    properties: &Properties,
    header: &Header,
    scope: Scope,
    secret: &Secret,
    select: Option<&Select>,
) -> Result<Properties, Unreadable> {
    let keys = WriteKeys::derive(secret, &header.salt, scope);
    // Before any property: until then, names, types and tags are only claims of the row's last writer.
    if !header.is_signed_by(&keys) {
        return Err(Unreadable::Refused);
    }
    decrypt(properties, header, &keys, select).ok_or(Unreadable::Refused)
}

fn decrypt(
    properties: &Properties,
    header: &Header,
    keys: &WriteKeys,
    select: Option<&Select>,
) -> Option<Properties> {
    let mut missing: Vec<bool> =
        header.list.iter().map(|listed| select.is_none_or(|s| s.contains(&listed.name))).collect();
    let mut out = Properties::with_capacity(properties.as_packed().len());
    for property in properties.iter().filter(|p| p.name() != HEADER) {
        match header.find(property.name()) {
            None => out.push(property.name(), property.value(), property.is_encrypted()),
            Some(index) => {
                // A store that returns a property twice, or one that was not requested, is refused too.
                if !std::mem::take(&mut missing[index]) {
                    return None;
                }
                let value = decrypt_one(keys, index, &header.list[index], property.value())?;
                out.push(property.name(), value.as_ref(), true);
            }
        }
    }
    // A listed property that the store did not return was removed by a writer without the key.
    (!missing.contains(&true)).then_some(out)
}

fn decrypt_one(
    keys: &WriteKeys,
    index: usize,
    listed: &Listed,
    stored: ValueRef<'_>,
) -> Option<table_core::model::EdmValue> {
    // A plaintext value in the place of the ciphertext has another type, and must not be read as if it were decrypted.
    let ValueRef::Binary(ciphertext) = stored else { return None };
    let mut bytes = ciphertext.to_vec();
    let sound = keys.decrypt(index, &listed.name, listed.edm_type, &mut bytes, &listed.tag);
    if sound { plain::decode(listed.edm_type, bytes) } else { None }
}
