//! The pages and the client for apps, in a real Chromium: what a streamer sees, what a viewer's app
//! does, and what the pages must hold: no complaint in the console, a weight, a time, a size.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::needless_pass_by_value
)]

mod accessibility;
mod apps;
mod chromium;
mod client;
mod dashboard;
mod demo;
mod limits;
mod moderation;
mod outages;
mod page;
mod past;
mod proxy;
mod site;
mod tokens;
mod without_websocket;

#[path = "../support"]
mod support {
    pub mod backend;
    pub mod dashboard;
    pub mod hearing;
    pub mod in_store;
    pub mod link;
    pub mod media;
    pub mod program;
    pub mod redis_server;
    pub mod redis_view;
    pub mod service;
    pub mod socket;
    pub mod story;
    pub mod tokens;
    pub mod viewer;
    pub mod wait;
    pub mod world;
}

use std::time::Duration;

use support::wait;

/// The longest that a story may take, beside others on two cores.
const STORY_DEADLINE: Duration = Duration::from_secs(240);

/// Runs one story with its deadline.
fn story(told: impl Future<Output = ()>) {
    support::story::tell(STORY_DEADLINE, told);
}

/// Makes a test of a story.
macro_rules! stories {
    ($($(#[$doc:meta])* async fn $name:ident() $story:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            $crate::story(async move $story);
        }
    )*};
}
pub(crate) use stories;
