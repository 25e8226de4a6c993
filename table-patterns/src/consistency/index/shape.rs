pub use table_core::manifest::{Overflow, Shape};

/// How much of a list is in its row, and where the rest is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) bytes: usize,
    pub(super) overflow: Overflow,
}

impl Layout {
    /// How a list of this shape is laid out.
    pub(super) const fn of(shape: &Shape) -> Self {
        match shape {
            Shape::List { bytes, overflow } => Self { bytes: *bytes, overflow: *overflow },
            _ => Self { bytes: 0, overflow: Overflow::Blob },
        }
    }
}
