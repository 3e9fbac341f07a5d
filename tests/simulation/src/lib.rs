//! A simulator of the whole program: one to five whole gateways, made by the production wiring, in
//! one thread, around one simulated store. Time, randomness, the network, the store and people all
//! follow from one seed.
//!
//! `docs/simulation.md` says what is real in it and how a seed is repeated.

mod at_rest;
mod backend;
mod child;
pub mod crowd;
mod eavesdropper;
mod engine;
pub mod expectation;
mod faults;
mod link;
mod media_server;
mod moderation;
mod network;
mod old_ids;
mod oracle;
mod plan;
mod process;
pub mod timing;
mod trace;
mod world;

pub use child::{Smallest, arguments, shrink, simulate_in_child};
pub use engine::{HistoryArgs, HistoryReport, simulate};
pub use faults::Fault;
