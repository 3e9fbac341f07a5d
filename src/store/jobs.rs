//! Jobs that gateways share, each until it is done: those for the followers of an author, and
//! erasures. A gateway that takes a job reports regularly how far it got. If it makes no report for
//! [`CLAIM_AFTER`], another gateway goes on from there.
//!
//! In Redis the gateways read a stream of jobs as one consumer group. A hash notes for each job which
//! gateway works on it and how far it got. Both are in one slot, so each step is one script. The
//! group has one consumer for all gateways, so that gateways that are gone leave no consumers behind.
//! The hash names the gateway of each job instead.

use std::time::Duration;

/// The time without a report after which another gateway takes a job over. It is longer than any
/// write of a step may be under way.
pub const CLAIM_AFTER: Duration = Duration::from_secs(12);

/// The consumer group of the gateways.
pub(crate) const JOB_GROUP: &str = "gateways";
