use super::Key;

/// What the keys of system rows start with: rows of the pattern library that no typed query shows.
///
/// Key parts escape `~` as `~7E`, so that no typed text starts a key with it, and it sorts after
/// ASCII letters and digits: a log tail or a range of rows does not meet system rows.
pub const SYSTEM_PREFIX: &str = "~~";

impl Key {
    /// Whether this is the key of a system row; see [`SYSTEM_PREFIX`].
    pub fn is_system(&self) -> bool {
        self.row().starts_with(SYSTEM_PREFIX) || self.partition().starts_with(SYSTEM_PREFIX)
    }
}
