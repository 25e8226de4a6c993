use std::fmt;

use table_core::store::{ErrorKind, Result};
use zeroize::Zeroizing;

/// Key material. It is overwritten when dropped, and `Debug` does not show it.
///
/// ```
/// let key = table_encryption::KeyBytes::from(vec![7; 32]);
/// assert_eq!(format!("{key:?}"), "KeyBytes(32 bytes)");
/// ```
#[derive(Clone)]
pub struct KeyBytes(Zeroizing<Vec<u8>>);

impl KeyBytes {
    /// Returns random bytes of the operating system.
    ///
    /// # Errors
    /// Fails if the operating system provides none.
    pub fn random(len: usize) -> Result<Self> {
        let mut bytes = Zeroizing::new(vec![0; len]);
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the bytes. Do not keep copies of them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

pub(crate) fn fill_random(out: &mut [u8]) -> Result<()> {
    let failed =
        |e| ErrorKind::Encryption(format!("the operating system provides no random bytes: {e}")).into();
    getrandom::fill(out).map_err(failed)
}

impl From<Vec<u8>> for KeyBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBytes({} bytes)", self.0.len())
    }
}
