use std::sync::Arc;

use bytes::Bytes;
use futures_util::{TryStreamExt as _, stream};
use table_core::Result;

use super::*;
use crate::AesKeyWrap;
use crate::data_key::{DataKey, Wrapping};
use crate::testing::{hex, kek};

fn cipher() -> BlobCipher {
    BlobCipher::with_keys(Keys::new(Arc::new(kek(1)))).unwrap()
}

fn place(name: &str) -> BlobPlace {
    BlobPlace {
        table: TableName::new("Documents").unwrap(),
        key: Key::new("p", "r").unwrap(),
        name: name.into(),
    }
}

async fn seal(cipher: &BlobCipher, content: &[u8], piece: usize) -> Vec<u8> {
    let mut sealer = cipher.sealer(&place("Body")).await.unwrap();
    let mut out = Vec::new();
    for piece in content.chunks(piece) {
        out.extend(sealer.push(piece).unwrap());
    }
    out.extend(sealer.finish().unwrap());
    out
}

async fn open(
    cipher: &BlobCipher,
    place: &BlobPlace,
    sealed: &[u8],
    piece: usize,
) -> Result<Vec<u8>> {
    let mut opener = cipher.opener(place);
    let mut out = Vec::new();
    for piece in sealed.chunks(piece) {
        out.extend(opener.push(piece).await?);
    }
    out.extend(opener.finish().await?);
    Ok(out)
}

#[tokio::test]
async fn blobs_of_any_length_in_any_pieces_survive_a_round_trip() {
    let cipher = cipher();
    let full = CHUNK_BYTES as usize;
    for len in [0, 1, 100, full - 1, full, full + 1, 2 * full, 3 * full + 17] {
        let content: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        for (sealed_by, opened_by) in [(1000, 777), (full, full + 16), (usize::MAX / 2, 1 << 20)] {
            let sealed = seal(&cipher, &content, sealed_by).await;
            assert_eq!(
                open(&cipher, &place("Body"), &sealed, opened_by)
                    .await
                    .unwrap(),
                content
            );
        }
    }
}

/// Blobs that an independent program created; compared byte for byte.
#[tokio::test]
async fn blobs_equal_the_test_vectors() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/vectors/v2.json")).unwrap();
    for vector in vectors["blobs"].as_array().unwrap() {
        let bytes = |name: &str| hex(vector[name].as_str().unwrap());
        let key = AesKeyWrap::new("local:kek1", &bytes("kek").into()).unwrap();
        let cipher = BlobCipher::with_keys(Keys::new(Arc::new(key))).unwrap();
        let sealed = bytes("sealed");
        assert_eq!(
            open(&cipher, &place("Body"), &sealed, 7).await.unwrap(),
            bytes("content")
        );
        let (preamble, _) = Preamble::parse(&sealed).unwrap();
        let secret = Arc::new(Secret::new(bytes("data_key").try_into().unwrap()));
        let data_key = DataKey {
            secret,
            wrapping: Wrapping::clone(&preamble.wrapping),
        };
        let (chunks, commitment) = cipher.chunks(
            &place("Body"),
            &data_key.secret,
            &preamble.salt,
            preamble.chunk,
        );
        assert_eq!(commitment, preamble.commitment);
        let mut sealer = BlobSealer::new(preamble.to_bytes(), chunks, preamble.chunk);
        let mut again = sealer.push(&bytes("content")).unwrap();
        again.extend(sealer.finish().unwrap());
        assert_eq!(again, sealed);
    }
}

/// Changes every byte, cuts at every length, exchanges, repeats and removes chunks, and uses another place.
#[tokio::test]
async fn changes_are_detected() {
    let cipher = cipher();
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/vectors/v2.json")).unwrap();
    let three = &vectors["blobs"][2];
    let key = AesKeyWrap::new("local:kek1", &hex(three["kek"].as_str().unwrap()).into()).unwrap();
    let known = BlobCipher::with_keys(Keys::new(Arc::new(key))).unwrap();
    let sealed = hex(three["sealed"].as_str().unwrap());
    for i in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[i] ^= 1;
        assert!(
            open(&known, &place("Body"), &changed, 50).await.is_err(),
            "byte {i}"
        );
        assert!(
            open(&known, &place("Body"), &sealed[..i], 50)
                .await
                .is_err(),
            "cut at {i}"
        );
    }
    let chunks = sealed.len() - (32 + 32 + 24);
    let [first, second, third] = [
        chunks..chunks + 32,
        chunks + 32..chunks + 64,
        chunks + 64..sealed.len(),
    ]
    .map(|range| sealed[range].to_vec());
    let start = sealed[..chunks].to_vec();
    for order in [
        vec![&second, &first, &third],
        vec![&first, &first, &third],
        vec![&first, &third],
        vec![&first, &second],
    ] {
        let changed: Vec<u8> = order
            .into_iter()
            .fold(start.clone(), |all, chunk| [&all[..], chunk].concat());
        assert!(open(&known, &place("Body"), &changed, 50).await.is_err());
    }
    let mut longer = sealed.clone();
    longer.push(0);
    assert!(open(&known, &place("Body"), &longer, 50).await.is_err());
    assert!(open(&known, &place("Other"), &sealed, 50).await.is_err());
    let other = BlobPlace {
        key: Key::new("p", "r2").unwrap(),
        ..place("Body")
    };
    assert!(open(&known, &other, &sealed, 50).await.is_err());
    assert!(open(&cipher, &place("Body"), &sealed, 50).await.is_err());
}

#[tokio::test]
async fn streams_end_at_the_end_of_the_blob() {
    let cipher = cipher();
    let content: Vec<Bytes> = (0..40_u8).map(|i| Bytes::from(vec![i; 5000])).collect();
    let plaintext = stream::iter(content.clone().into_iter().map(Ok));
    let sealed: Vec<Bytes> = cipher
        .seal_stream(place("Body"), plaintext)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(sealed.len(), 5);
    let opened = cipher.open_stream(
        &place("Body"),
        stream::iter(sealed.clone().into_iter().map(Ok)),
    );
    let opened: Vec<Bytes> = opened.try_collect().await.unwrap();
    assert_eq!(opened.concat(), content.concat());
    let cut = stream::iter(sealed[..4].iter().cloned().map(Ok));
    let cut = cipher
        .open_stream(&place("Body"), cut)
        .try_collect::<Vec<Bytes>>()
        .await;
    assert!(cut.unwrap_err().to_string().contains("incomplete"));
}
