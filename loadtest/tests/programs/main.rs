//! The load tools' programs. They wait more than they compute, and so are tested side by side.

#[path = "../support/fake.rs"]
mod fake;
#[path = "../support/gateway.rs"]
mod gateway;

mod bench;
mod chaos;
mod crowd;
mod fan_source_outage;
mod fanout;
mod hostile;
mod machines;
mod soak;
mod storm;
mod takeover;
mod webhooks;
