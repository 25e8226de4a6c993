//! Retries over injected faults. Tokio's clock is paused, so nothing really waits.

mod delays;
mod matrix;
mod rig;
mod write_ids;
