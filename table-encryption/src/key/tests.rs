use super::*;
use crate::testing::hex;

/// RFC 3394, 4.1, 4.2, 4.3 and 4.6.
#[tokio::test]
async fn aes_key_wrap_equals_the_rfc_vectors() {
    let kek = hex("000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F");
    let data = hex("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F");
    let known = [
        (
            16,
            16,
            "A128KW",
            "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5",
        ),
        (
            24,
            16,
            "A192KW",
            "96778B25AE6CA435F92B5B97C050AED2468AB8A17AD84E5D",
        ),
        (
            32,
            16,
            "A256KW",
            "64E8C3F9CE0F5BA263E9777905818A2A93C8191E7D6E8AE7",
        ),
        (
            32,
            32,
            "A256KW",
            "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21",
        ),
    ];
    for (kek_len, data_len, algorithm, wrapped) in known {
        let key = AesKeyWrap::new("k", &kek[..kek_len].to_vec().into()).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        let data = KeyBytes::from(data[..data_len].to_vec());
        assert_eq!(key.wrap_key(&data).await.unwrap(), hex(wrapped));
        assert_eq!(
            key.unwrap_key(&hex(wrapped)).await.unwrap().expose(),
            data.expose()
        );
    }
}

#[tokio::test]
async fn aes_refuses_keys_that_it_did_not_wrap() {
    let key = AesKeyWrap::new("k", &vec![1; 32].into()).unwrap();
    let wrapped = key.wrap_key(&vec![2; 40].into()).await.unwrap();
    for i in 0..wrapped.len() {
        let mut changed = wrapped.clone();
        changed[i] ^= 1;
        assert!(key.unwrap_key(&changed).await.is_err());
    }
    for len in 0..wrapped.len() {
        assert!(key.unwrap_key(&wrapped[..len]).await.is_err());
    }
    assert!(AesKeyWrap::new("k", &vec![1; 31].into()).is_err());
}

#[cfg(feature = "rsa")]
#[tokio::test]
async fn rsa_wraps_and_unwraps() {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
    use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
    let generated = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
    let pkcs8: KeyBytes = AsDer::<Pkcs8V1Der<'_>>::as_der(&generated)
        .unwrap()
        .as_ref()
        .to_vec()
        .into();
    let public = AsDer::<PublicKeyX509Der<'_>>::as_der(&generated.public_key()).unwrap();
    for (hash, name) in [
        (OaepHash::Sha1, "RSA-OAEP"),
        (OaepHash::Sha256, "RSA-OAEP-256"),
    ] {
        let key = RsaKeyWrap::from_pkcs8("k", &pkcs8, hash).unwrap();
        let writer = RsaKeyWrap::from_public_der("k", public.as_ref(), hash).unwrap();
        assert_eq!(key.algorithm(), name);
        let wrapped = writer.wrap_key(&vec![3; 40].into()).await.unwrap();
        assert_eq!(key.unwrap_key(&wrapped).await.unwrap().expose(), [3; 40]);
        assert!(writer.unwrap_key(&wrapped).await.is_err());
        for i in [0, 100, 255] {
            let mut changed = wrapped.clone();
            changed[i] ^= 1;
            assert!(key.unwrap_key(&changed).await.is_err());
        }
    }
    assert!(RsaKeyWrap::from_public_der("k", b"no key", OaepHash::Sha1).is_err());
}

/// A key whose own `Debug` shows a secret.
#[derive(Debug)]
struct Careless(#[expect(dead_code, reason = "shown")] &'static str);

#[async_trait]
impl KeyWrap for Careless {
    fn key_id(&self) -> &'static str {
        "careless"
    }

    fn algorithm(&self) -> &'static str {
        "A256KW"
    }

    async fn wrap_key(&self, _: &KeyBytes) -> Result<Vec<u8>> {
        Ok(vec![0; 48])
    }

    async fn unwrap_key(&self, _: &[u8]) -> Result<KeyBytes> {
        Ok(vec![0; 40].into())
    }
}

#[async_trait]
impl KeyResolver for Careless {
    async fn resolve(&self, _: &str) -> Result<Option<Arc<dyn KeyWrap>>> {
        Ok(Some(Arc::new(Self("material"))))
    }
}

/// `Debug` of a store, its builder, its ciphers and its sweeps shows key ids and no key material.
#[test]
fn debug_shows_key_ids_only() {
    use table_core::memory::MemoryStore;
    use table_core::model::TableName;

    use crate::{BlobCipher, EncryptedStore, LegacyV1};
    let keys =
        || Keys::new(Arc::new(Careless("material"))).with_resolver(Arc::new(Careless("material")));
    let legacy = LegacyV1::new(
        Keys::new(Arc::new(crate::testing::kek(9))).with_key(Arc::new(Careless("material"))),
    );
    let table = TableName::new("People").unwrap();
    let builder = EncryptedStore::builder(
        MemoryStore::new(),
        Keys::new(Arc::new(crate::testing::kek(1))),
    );
    let shown = format!("{:?}", builder.with_legacy_v1(legacy.clone().read(&table)));
    let store = EncryptedStore::builder(MemoryStore::new(), keys())
        .build()
        .unwrap();
    let cipher = BlobCipher::with_keys(keys()).unwrap();
    let shown = format!(
        "{shown} {:?} {legacy:?} {store:?} {cipher:?} {:?} {:?} {:?}",
        keys(),
        store.blob_cipher(),
        store.rotation(&table),
        store.migration(&table)
    );
    assert!(
        shown.contains("careless") && !shown.contains("material"),
        "{shown}"
    );
}

/// Each id must have one key, regardless of how keys are added.
#[tokio::test]
async fn two_keys_with_the_same_id_are_refused() {
    use table_core::memory::MemoryStore;

    use crate::testing::kek;
    use crate::{BlobCipher, EncryptedStore, LegacyV1};
    let namesake =
        |n: u8| Arc::new(AesKeyWrap::new(format!("kek{n}"), &vec![99; 32].into()).unwrap());
    let of_the_active = Keys::new(Arc::new(kek(1))).with_key(namesake(1));
    let of_another_key = Keys::new(Arc::new(kek(1)))
        .with_key(Arc::new(kek(2)))
        .with_key(namesake(2));
    for keys in [of_the_active, of_another_key] {
        for error in [
            EncryptedStore::new(MemoryStore::new(), keys.clone()).unwrap_err(),
            BlobCipher::with_keys(keys.clone()).unwrap_err(),
            EncryptedStore::builder(MemoryStore::new(), Keys::new(Arc::new(kek(7))))
                .with_legacy_v1(LegacyV1::new(keys.clone()))
                .build()
                .unwrap_err(),
        ] {
            assert!(
                error.to_string().contains("two keys have the id"),
                "{error}"
            );
        }
    }
    let one: Arc<dyn KeyWrap> = Arc::new(kek(1));
    let keys = Keys::new(Arc::clone(&one))
        .with_key(Arc::clone(&one))
        .with_key(Arc::new(kek(2)));
    assert!(keys.check().is_ok() && keys.find("kek2").await.unwrap().is_some());
}

/// A resolver that returns another key than the requested one.
#[tokio::test]
async fn a_resolver_must_return_the_requested_key() {
    let keys =
        Keys::new(Arc::new(crate::testing::kek(1))).with_resolver(Arc::new(Careless("material")));
    assert!(keys.find("careless").await.unwrap().is_some());
    let error = keys.find("other").await.unwrap_err();
    assert!(error.to_string().contains("\"other\""), "{error}");
}
