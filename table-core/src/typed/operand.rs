use std::borrow::Cow;
use std::sync::Arc;

/// What may be given where a `V` is wanted, in comparisons, keys and patches: a `V`, a `&V`, and
/// `&str` or `&[u8]` for the owned forms of text and bytes.
#[diagnostic::on_unimplemented(
    message = "expected a `{V}`, found a `{Self}`",
    note = "give a `{V}` or a reference to one; text may be given as `&str`, bytes as `&[u8]`"
)]
pub trait Operand<V> {
    /// The value.
    fn into_operand(self) -> V;
}

impl<V> Operand<V> for V {
    fn into_operand(self) -> V {
        self
    }
}

impl<V: Clone> Operand<V> for &V {
    fn into_operand(self) -> V {
        self.clone()
    }
}

macro_rules! borrowed {
    ($($from:ty => $to:ty),*) => {$(
        impl Operand<$to> for $from {
            fn into_operand(self) -> $to {
                self.to_owned().into()
            }
        }
    )*};
}

borrowed!(&str => String, &str => Box<str>, &str => Arc<str>, &str => Cow<'static, str>, &[u8] => Vec<u8>);
