use crate::model::{Key, PartitionKey};
use crate::typed::{EntityKey, PartitionOf};

/// What names an entity in a table of `T`: an [`EntityKey`] of the type, or a [`Key`], which claims
/// to be one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of `{T}`",
    note = "make one with `{T}::key(…)`; a key of another type needs `.cast()`"
)]
pub trait KeyOf<T>: Send {
    /// The key.
    fn into_key(self) -> Key;
}

impl<T> KeyOf<T> for EntityKey<T> {
    fn into_key(self) -> Key {
        Self::into_key(self)
    }
}

impl<T> KeyOf<T> for &EntityKey<T> {
    fn into_key(self) -> Key {
        self.key().clone()
    }
}

impl<T> KeyOf<T> for Key {
    fn into_key(self) -> Key {
        self
    }
}

impl<T> KeyOf<T> for &Key {
    fn into_key(self) -> Key {
        self.clone()
    }
}

/// What names a partition in a table of `T`: a [`PartitionOf`] the type, or a [`PartitionKey`], which
/// claims to be one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a partition of `{T}`",
    note = "make one with `{T}::partition(…)`; a partition of another type needs `.cast()`"
)]
pub trait PartitionIn<T> {
    /// The partition.
    fn partition_key(&self) -> &PartitionKey;
}

impl<T> PartitionIn<T> for PartitionOf<T> {
    fn partition_key(&self) -> &PartitionKey {
        self.partition_key()
    }
}

impl<T> PartitionIn<T> for PartitionKey {
    fn partition_key(&self) -> &PartitionKey {
        self
    }
}

impl<T, P: PartitionIn<T> + ?Sized> PartitionIn<T> for &P {
    fn partition_key(&self) -> &PartitionKey {
        (**self).partition_key()
    }
}
