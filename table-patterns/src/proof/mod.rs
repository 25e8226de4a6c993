//! Proofs of the cross-partition protocol on the real code: every request is a step that an explorer
//! orders, lets fail, delays or makes the last of its process; time is virtual. After each schedule the
//! workers and the sweep run, and then the index must be what the entities say.

mod choose;
mod explore;
mod footprint;
mod interleavings;
mod lists;
mod mutations;
mod queue;
mod scene;
mod stage;
mod store;
mod strangers;
mod world;
