//! The commands besides serving. They look at a store, or ask gateways, from outside.

pub mod audit;
