//! Lives that follow streams, on a gateway of a memory store.
