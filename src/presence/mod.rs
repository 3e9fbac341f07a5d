//! The users in lives on this gateway, and the gateway's knowledge of its peers: state only.
//! Nothing in this folder awaits the store, and no map guard leaves the file that owns the map. The
//! loops that work on this state are in `sync`, `peers` and `dashboards`; sessions join and leave.
//!
//! A [`Room`] is one epoch of one live. It ends once: closed (its sockets hear of it) or evicted
//! (nobody needed it). A session may find a room that ends before the session joins it; the room
//! itself refuses that join, so a closed live never gets a member.

pub(crate) mod absent_streamers;
pub(crate) mod acks;
pub mod attendance;
pub(crate) mod audience;
pub(crate) mod bans;
pub(crate) mod check_due;
pub(crate) mod checks;
pub mod confirmed;
pub(crate) mod conn;
pub(crate) mod counting;
pub mod desired_state;
pub(crate) mod ended_lives;
pub(crate) mod ended_sessions;
pub(crate) mod erasing;
mod expected_slice;
pub mod figures;
pub(crate) mod friends_here;
pub mod gateways;
pub(crate) mod gauges;
pub(crate) mod moves;
pub(crate) mod own_lease;
pub(crate) mod platform;
pub(crate) mod published_viewers;
pub(crate) mod pushed_counts;
pub(crate) mod queue;
mod remote_viewers;
pub(crate) mod room;
pub(crate) mod room_info;
mod room_peaks;
pub(crate) mod room_stream;
pub(crate) mod rooms;
pub mod rules;
mod seating;
mod seats;
pub(crate) mod shape;
mod sign_ins;
pub(crate) mod slice;
pub(crate) mod slice_ref;
pub(crate) mod slice_state;
pub(crate) mod tally;
pub(crate) mod throttle;
pub(crate) mod trust;
pub mod turn;
pub(crate) mod unconfirmed;
pub(crate) mod user_budgets;
pub(crate) mod user_sockets;

pub(crate) use audience::Audience;
pub use expected_slice::ExpectedSlice;
pub(crate) use platform::Platform;
pub(crate) use room::{NoSeat, Room};
pub(crate) use rooms::{Installed, Rooms};
pub(crate) use seats::{ExpiredFans, Fan, Member};
pub(crate) use slice::Slice;
pub(crate) use slice_ref::SliceRef;
