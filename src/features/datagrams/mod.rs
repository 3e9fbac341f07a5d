//! Heartbeats by datagram (`--udp`), for sessions without a socket. `docs/datagrams.md` has the
//! format, and says what a client does.
//!
//! [`wire`] reads and writes datagrams, [`responder`] decides what becomes of each, and [`server`]
//! receives and sends. What a session must remember lies in
//! [`datagram_state`](crate::session::socketless::datagram_state).

mod addresses;
mod advertised;
mod cookies;
mod recent;
mod refusals;
mod responder;
mod resumptions;
mod server;
mod socket;
mod strangers;
mod tallies;
pub mod wire;

pub(crate) use advertised::advertised;
pub(crate) use responder::Shared;
pub(crate) use resumptions::Resumptions;
pub use server::DatagramDoor;
pub(crate) use server::serve;
pub(crate) use socket::{DatagramSocket, bind};
