//! The programs that hold no promise about time while they are tested, and so run side by side.

#[path = "../support/fake.rs"]
mod fake;
#[path = "../support/gateway.rs"]
mod gateway;

mod crowd;
mod fan_source_outage;
mod fanout;
mod machines;
mod storm;
mod webhooks;
