//! What a process knows of a table's indexes, and what other processes know of the process: the rows of the manifest, the indexes with
//! their states, the registration of processes, and the waits of a change of state. docs/manifest.md gives the rules and their reasons.

pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod processes;
pub(crate) mod set;
pub(crate) mod view;
pub(crate) mod waiting;
