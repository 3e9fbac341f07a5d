//! The clients for apps, as their authors get them: the packages of `src/clients`, and what others
//! generate from the OpenAPI document. `./tests/run` installs what they need into `target/clients`.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::needless_pass_by_value
)]

mod apps;
mod flaps;
mod javascript;
mod python;
mod requests;
mod tour;

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
    pub mod running;
    pub mod service;
    pub mod socket;
    pub mod story;
    pub mod tokens;
    pub mod viewer;
    pub mod wait;
    pub mod world;
}
