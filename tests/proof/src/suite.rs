//! The interleaving suite: tests of the consistency protocols on the real code, under a scheduler.
//!
//! Every request to the store, the queue and the blob store waits in the [`scheduler`]. A [`chooser`] decides which
//! request runs next, and whether it fails, is delayed, or is the last one of its process. Time is virtual. After each
//! schedule, workers and the sweep finish the writes that are left; then the checks compare the rows with the
//! entities. docs/proof.md describes the method and the guarantees; docs/proof-schedules.tsv has the number of
//! schedules of every scene.
//!
//! | modules | content |
//! |---|---|
//! | [`scheduler`], [`chooser`], [`explorer`], [`footprint`], [`ids`] | the scheduler, the order of requests, and the run of a schedule |
//! | [`scheduled_store`], [`scheduled_queue`], [`scheduled_blobs`] | the connections of a task, whose requests wait |
//! | [`acknowledgements`], [`final_state`], [`lineage`], [`history`] | checks after a schedule |
//! | [`journal_model`], [`journal_scene`] and [`write_scenes`], [`move_scenes`], [`mixed_leases`], [`random_writes`], [`fixed_schedules`] | the journal: a model, scenes over it, and single schedules |
//! | [`index_model`], [`index_scene`], [`index_verdict`] and [`maintenance`], [`open_scenes`], [`registration_scenes`], [`plain_writer_scenes`] | indexes with a manifest: writers, builds, scrubs and drops |
//! | [`shape_model`] and [`shape_scenes`] | indexes of every shape, and processes with several tasks |
//! | [`feed_model`] and [`feed_scenes`] | a change feed: writers, moves, trims, builds and drops |
//! | [`program_versions`] and [`deployment_scenes`] | two versions of a program that write at the same time |
//! | [`transactions_model`] and [`scripted_plan`] | eventually consistent transactions |
//! | [`invariants_needed`] | every rule of the protocol is needed: without it, a scene ends with a violation |

/// The rules, from `mutations.txt`.
mod invariants {
    include!(concat!(env!("OUT_DIR"), "/invariants.rs"));
}

use invariants::Invariant;

// The copy of table-patterns with the changes of `mutations.txt`.
include!(concat!(env!("OUT_DIR"), "/patterns.rs"));

mod acknowledgements;
mod chooser;
mod deployment_scenes;
mod explorer;
mod feed_model;
mod feed_scenes;
mod final_state;
mod fixed_schedules;
mod footprint;
mod history;
mod ids;
mod index_model;
mod index_scene;
mod index_verdict;
mod invariants_needed;
mod journal_model;
mod journal_scene;
mod lineage;
mod maintenance;
mod mixed_leases;
mod move_scenes;
mod omission;
mod open_scenes;
mod plain_writer_scenes;
mod program_versions;
mod random_writes;
mod registration_scenes;
mod scheduled_blobs;
mod scheduled_queue;
mod scheduled_store;
mod scheduler;
mod scripted_plan;
mod shape_model;
mod shape_scenes;
mod transactions_model;
mod write_scenes;
