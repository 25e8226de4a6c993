use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use table_core::store::{ErrorKind, Result};
use table_patterns::eventual::{StepHandler, StepId};

/// A step handler that records its calls and fails as often as the test sets.
#[derive(Debug, Default)]
pub(super) struct Recorder(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<(StepId, Vec<u8>)>,
    failures: usize,
}

impl Recorder {
    pub(super) fn fail(&self, times: usize) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .failures = times;
    }

    /// Returns the calls that succeeded.
    pub(super) fn calls(&self) -> Vec<(StepId, Vec<u8>)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .calls
            .clone()
    }
}

#[async_trait]
impl StepHandler for Recorder {
    async fn run(&self, step: StepId, payload: &[u8]) -> Result<()> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.failures > 0 {
            inner.failures -= 1;
            return Err(ErrorKind::Service("the recorder is out of order".to_owned()).into());
        }
        inner.calls.push((step, payload.to_vec()));
        Ok(())
    }
}
