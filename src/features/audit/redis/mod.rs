//! What the audit reads and repairs in Redis from outside the protocol.

pub(crate) mod ids;
pub(crate) mod users;
