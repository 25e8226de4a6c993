use table_core::model::Key;
use table_core::store::{Error, Result};

use super::{DataSeries, SlotCodec, SlotSet};

/// Counters.
impl<S: SlotSet, V: Counter, C: SlotCodec<V>> DataSeries<S, V, C> {
    /// Adds to a slot, from zero where it is missing; the new value. Loses no update. Two requests, and two more
    /// for each conflict.
    ///
    /// # Errors
    /// As [`modify`](Self::modify); the sum is too large for the type.
    pub async fn add(&self, series: &Key, slot: S::Slot, more: V) -> Result<V> {
        let name = self.slots().name(self.layout.index(&slot)?);
        let add = |value: Option<V>| {
            let sum = value.unwrap_or_default().plus(more);
            sum.ok_or_else(|| Error::invalid_value(&*name, "the sum is too large for the type"))
        };
        self.modify(series, slot, add).await
    }
}

/// A number that can be counted up without wrapping around.
pub trait Counter: Copy + Default + Send + Sync {
    /// The sum; `None` if it is out of range.
    fn plus(self, more: Self) -> Option<Self>;
}

macro_rules! counters {
    ($($number:ty)*) => {$(
        impl Counter for $number {
            fn plus(self, more: Self) -> Option<Self> {
                self.checked_add(more)
            }
        }
    )*};
}

counters! { i8 i16 i32 i64 u8 u16 u32 u64 }

impl Counter for f64 {
    fn plus(self, more: Self) -> Option<Self> {
        Some(self + more)
    }
}
