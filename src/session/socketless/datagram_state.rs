//! What a session keeps about its datagrams.

/// The state of the datagrams of one session.
#[derive(Debug, Default)]
pub(crate) struct DatagramState {}
