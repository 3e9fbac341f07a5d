//! The load tools' programs. They wait more than they compute, and so are tested side by side.

#[path = "../support/fake.rs"]
mod fake;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/run.rs"]
mod run;

mod bench;
mod chaos;
mod crowd;
mod machines;
mod soak;
mod storm;
mod tools;
