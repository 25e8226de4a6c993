//! The encoding of variable parts in keyed contexts.

/// Appends the length of `bytes` as a `u32`, then `bytes`.
pub(crate) fn push_lp(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}
