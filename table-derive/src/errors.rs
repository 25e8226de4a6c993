use std::cell::RefCell;

use quote::ToTokens;

/// Collects all errors of an input, so that they are reported together.
///
/// Must be checked: dropping it unchecked is a bug in the macro.
pub(crate) struct Errors(RefCell<Option<Vec<syn::Error>>>);

impl Errors {
    pub(crate) fn new() -> Self {
        Self(RefCell::new(Some(Vec::new())))
    }

    /// Creates a collection whose errors another collection has reported already.
    pub(crate) fn ignored() -> Self {
        Self(RefCell::new(None))
    }

    /// Reports an error at these tokens.
    pub(crate) fn push(&self, at: impl ToTokens, message: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(at, message));
    }

    pub(crate) fn add(&self, error: syn::Error) {
        if let Some(errors) = self.0.borrow_mut().as_mut() {
            errors.push(error);
        }
    }

    /// Returns the number of errors.
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().as_ref().map_or(0, Vec::len)
    }

    /// Returns all errors as one.
    pub(crate) fn check(self) -> syn::Result<()> {
        let errors = self.0.take().unwrap_or_default();
        let joined = errors.into_iter().reduce(|mut all, error| {
            all.combine(error);
            all
        });
        joined.map_or(Ok(()), Err)
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        let checked = self.0.borrow().is_none();
        // A second panic while one unwinds would abort the compiler and hide the first.
        assert!(
            checked || std::thread::panicking(),
            "the macro forgot to report its errors"
        );
    }
}
