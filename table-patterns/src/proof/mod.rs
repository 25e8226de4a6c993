//! Proofs of the cross-partition protocol on the real code: every request is a step that an explorer
//! orders, lets fail, delays or makes the last of its process; time is virtual. After each schedule the
//! workers and the sweep run, and then the index must be what the entities say.

mod choose;
mod deploy;
mod errands;
mod explore;
mod footprint;
pub(crate) mod ids;
mod interleavings;
mod judge;
mod keepers;
mod library;
mod lineage;
mod movers;
mod mutations;
mod office;
mod openers;
mod programs;
mod queue;
mod registered;
mod rest;
mod scene;
mod schedules;
mod shape_scenes;
mod shapes;
mod shelf;
mod stage;
mod staged_blobs;
mod store;
mod strangers;
mod told;
mod validating;
mod world;
