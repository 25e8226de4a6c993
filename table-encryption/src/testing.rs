//! Helpers for the tests of several modules.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use async_trait::async_trait;
use table_core::Result;
use table_core::store::ErrorKind;

use crate::{AesKeyWrap, KeyBytes, KeyWrap};

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Returns the key encryption key `kek<n>`.
pub(crate) fn kek(n: u8) -> AesKeyWrap {
    AesKeyWrap::new(format!("kek{n}"), &vec![n; 32].into()).expect("32 bytes")
}

/// A key that counts its calls, as a key service bills them.
#[derive(Debug)]
pub(crate) struct CountingWrap {
    key: AesKeyWrap,
    wraps: AtomicUsize,
    unwraps: AtomicUsize,
}

impl CountingWrap {
    pub(crate) fn new(key: AesKeyWrap) -> Self {
        Self {
            key,
            wraps: AtomicUsize::new(0),
            unwraps: AtomicUsize::new(0),
        }
    }

    pub(crate) fn wraps(&self) -> usize {
        self.wraps.load(SeqCst)
    }

    pub(crate) fn unwraps(&self) -> usize {
        self.unwraps.load(SeqCst)
    }
}

#[async_trait]
impl KeyWrap for CountingWrap {
    fn key_id(&self) -> &str {
        self.key.key_id()
    }

    fn algorithm(&self) -> &str {
        self.key.algorithm()
    }

    async fn wrap_key(&self, key: &KeyBytes) -> Result<Vec<u8>> {
        self.wraps.fetch_add(1, SeqCst);
        tokio::task::yield_now().await;
        self.key.wrap_key(key).await
    }

    async fn unwrap_key(&self, wrapped: &[u8]) -> Result<KeyBytes> {
        self.unwraps.fetch_add(1, SeqCst);
        // Twice, so that a second caller has to wait too.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        self.key.unwrap_key(wrapped).await
    }
}

/// A failure of a key service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outage {
    None,
    Busy,
    Forbidden,
}

/// A key of a service that may fail.
#[derive(Debug)]
pub(crate) struct UnreliableWrap {
    key: AesKeyWrap,
    outage: Outage,
}

impl UnreliableWrap {
    pub(crate) fn new(key: AesKeyWrap, outage: Outage) -> Self {
        Self { key, outage }
    }

    fn answer(&self) -> Result<()> {
        match self.outage {
            Outage::None => Ok(()),
            Outage::Busy => Err(ErrorKind::Throttled { retry_after: None }.into()),
            Outage::Forbidden => {
                Err(ErrorKind::Forbidden("the key is not yours".to_owned()).into())
            }
        }
    }
}

#[async_trait]
impl KeyWrap for UnreliableWrap {
    fn key_id(&self) -> &str {
        self.key.key_id()
    }

    fn algorithm(&self) -> &str {
        self.key.algorithm()
    }

    async fn wrap_key(&self, key: &KeyBytes) -> Result<Vec<u8>> {
        self.answer()?;
        self.key.wrap_key(key).await
    }

    async fn unwrap_key(&self, wrapped: &[u8]) -> Result<KeyBytes> {
        self.answer()?;
        self.key.unwrap_key(wrapped).await
    }
}
