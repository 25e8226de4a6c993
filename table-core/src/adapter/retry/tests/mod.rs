//! Retries over injected faults. Time is Tokio's paused clock: nothing here waits.

mod delays;
mod matrix;
mod rig;
mod write_ids;
