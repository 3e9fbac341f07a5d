//! The pure slice protocol.
