use super::*;
use crate::testing::hex;

/// RFC 3394, 4.1, 4.2, 4.3 and 4.6.
#[tokio::test]
async fn aes_wraps_as_the_rfc_says() {
    let kek = hex("000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F");
    let data = hex("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F");
    let known = [
        (16, 16, "A128KW", "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5"),
        (24, 16, "A192KW", "96778B25AE6CA435F92B5B97C050AED2468AB8A17AD84E5D"),
        (32, 16, "A256KW", "64E8C3F9CE0F5BA263E9777905818A2A93C8191E7D6E8AE7"),
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
        assert_eq!(key.unwrap_key(&hex(wrapped)).await.unwrap().expose(), data.expose());
    }
}

#[tokio::test]
async fn aes_refuses_what_it_did_not_wrap() {
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
    let pkcs8: KeyBytes = AsDer::<Pkcs8V1Der<'_>>::as_der(&generated).unwrap().as_ref().to_vec().into();
    let public = AsDer::<PublicKeyX509Der<'_>>::as_der(&generated.public_key()).unwrap();
    for (hash, name) in [(OaepHash::Sha1, "RSA-OAEP"), (OaepHash::Sha256, "RSA-OAEP-256")] {
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
