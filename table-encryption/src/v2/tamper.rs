//! Changes of any byte of any stored field are detected.

use table_core::model::{Key, Properties, ValueRef};

use super::*;
use crate::data_key::{DataKey, Secret, Wrapping};

struct Scene {
    key: DataKey,
    scope: Scope,
    sealed: Properties,
}

fn data_key() -> DataKey {
    let wrapping = Wrapping {
        algorithm: "A256KW".into(),
        key_id: "kek1".into(),
        wrapped: vec![9; 48].into(),
    };
    DataKey {
        secret: Secret::new([7; 32]).into(),
        wrapping,
    }
}

fn scope(table: &str, partition: &str, row: &str) -> Scope {
    Scope::of_entity(table, &Key::new(partition, row).unwrap())
}

fn scene(salt: u8) -> Scene {
    let mut clear = Properties::new();
    clear.set_encrypted("Name", "Ken Sánchez");
    clear.set_encrypted("Alias", "Ken Sánchez");
    clear.set_encrypted("Salary", 125.5);
    clear.set("Age", 41);
    let (key, scope) = (data_key(), scope("people", "Sales", "223"));
    let sealed = seal(&clear, scope.clone(), &key, [salt; 32]);
    Scene { key, scope, sealed }
}

fn binary(properties: &Properties, name: &str) -> Vec<u8> {
    let Some(ValueRef::Binary(bytes)) = properties.get(name) else {
        panic!("no bytes in {name}")
    };
    bytes.to_vec()
}

impl Scene {
    fn opens(&self, properties: &Properties, scope: &Scope) -> bool {
        let Some(header) = Header::parse(&binary(properties, HEADER)) else {
            return false;
        };
        open(properties, &header, scope.clone(), &self.key.secret, None).is_ok()
    }

    fn opens_with(&self, name: &str, value: Option<&[u8]>) -> bool {
        let mut changed = self.sealed.clone();
        match value {
            Some(bytes) => changed.put(name, ValueRef::Binary(bytes), false),
            None => assert!(changed.remove(name)),
        }
        self.opens(&changed, &self.scope)
    }
}

#[test]
fn a_flip_of_any_bit_is_detected() {
    let scene = scene(1);
    assert!(scene.opens(&scene.sealed, &scene.scope));
    for name in ["Name", "Alias", "Salary", HEADER] {
        let bytes = binary(&scene.sealed, name);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !scene.opens_with(name, Some(&changed)),
                "bit {bit} of {name}"
            );
        }
        for len in 0..bytes.len() {
            assert!(
                !scene.opens_with(name, Some(&bytes[..len])),
                "{name} cut to {len} bytes"
            );
        }
        assert!(!scene.opens_with(name, Some(&[&bytes[..], b"x"].concat())));
    }
}

#[test]
fn exchanged_moved_removed_and_restored_properties_are_detected() {
    let (scene, older) = (scene(1), self::scene(2));
    let (name, alias) = (
        binary(&scene.sealed, "Name"),
        binary(&scene.sealed, "Alias"),
    );
    assert_ne!(name, alias);
    assert!(!scene.opens_with("Name", Some(&alias)) && !scene.opens_with("Alias", Some(&name)));
    assert!(!scene.opens_with("Name", None));
    assert!(
        !scene.opens_with("Name", Some(&binary(&older.sealed, "Name"))),
        "an older version of one property"
    );
    assert!(
        !scene.opens_with(HEADER, Some(&binary(&older.sealed, HEADER))),
        "an older header"
    );
    let mut plain = scene.sealed.clone();
    plain.set("Name", "Ken Sánchez");
    assert!(
        !scene.opens(&plain, &scene.scope),
        "plaintext in place of ciphertext"
    );
    for (table, partition, row) in [
        ("people2", "Sales", "223"),
        ("people", "Sales2", "223"),
        ("people", "Sales", "224"),
        ("people", "Sale", "s223"),
    ] {
        assert!(
            !scene.opens(&scene.sealed, &scope(table, partition, row)),
            "{table} {partition} {row}"
        );
    }
}

/// A list that only a holder of the data key can create is still refused if it is inconsistent.
#[test]
fn a_shortened_or_changed_list_is_refused() {
    let scene = scene(1);
    let header = Header::parse(&binary(&scene.sealed, HEADER)).unwrap();
    let refused = |change: fn(&mut Header)| {
        let mut header = header.clone();
        change(&mut header);
        assert!(!scene.opens_with(HEADER, Some(&header.to_bytes())));
    };
    refused(|h| drop(h.list.remove(0)));
    refused(|h| h.list.clear());
    refused(|h| h.list[0].name = "Aliaz".into());
    refused(|h| h.list[0].edm_type = table_core::model::EdmType::Binary);
    refused(|h| h.wrapping.key_id = "kek2".into());
    refused(|h| h.wrapping.algorithm = "RSA-OAEP".into());
    refused(|h| h.salt[0] ^= 1);
}

#[test]
fn the_commitment_detects_another_data_key() {
    let scene = scene(1);
    let header = Header::parse(&binary(&scene.sealed, HEADER)).unwrap();
    let other = WriteKeys::derive(&Secret::new([8; 32]), &header.salt, scene.scope.clone());
    assert_ne!(other.commitment(), &header.commitment);
    assert!(!header.is_signed_by(&other));
}
