pub use table_core::manifest::{Overflow, Shape};

/// How many bytes of a list its row holds, and where further references are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) bytes: usize,
    pub(super) overflow: Overflow,
}

impl Layout {
    /// The layout of a list of this shape.
    pub(super) const fn of(shape: &Shape) -> Self {
        match shape {
            Shape::List { bytes, overflow } => Self { bytes: *bytes, overflow: *overflow },
            _ => Self { bytes: 0, overflow: Overflow::Blob },
        }
    }
}
