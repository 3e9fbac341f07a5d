//! What viewers, streamers, back ends and operators may rely on, told with real sockets and a real
//! redis-server. A story is a file; `support` has the verbs.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::needless_pass_by_value
)]

#[path = "support"]
mod support {
    pub mod backend;
    pub mod certificates;
    pub mod command;
    pub mod dashboard;
    pub mod datagrams;
    pub mod fan_service;
    pub mod foreign;
    pub mod guarded;
    pub mod hearing;
    pub mod in_store;
    pub mod issuer;
    pub mod link;
    pub mod media;
    pub mod mysql;
    pub mod postgres;
    pub mod presence;
    pub mod program;
    pub mod redis_cluster;
    pub mod redis_sentinels;
    pub mod redis_server;
    pub mod redis_view;
    pub mod rtmp;
    pub mod running;
    pub mod service;
    pub mod socket;
    pub mod stores;
    pub mod story;
    pub mod terminal;
    pub mod tls_client;
    pub mod tls_door;
    pub mod tokens;
    pub mod viewer;
    pub mod wait;
    pub mod webhook;
    pub mod witness;
    pub mod world;
}

#[path = "stories"]
mod stories {
    mod address_limits;
    mod after_a_crash;
    mod attendance;
    mod audit;
    mod away;
    mod browsers;
    mod check_config;
    mod claims;
    mod client_snippet;
    mod clocks;
    mod closing;
    mod cluster;
    mod command_output;
    mod confirmed;
    mod counted;
    mod dashboards;
    mod datagrams;
    mod devices;
    mod draining;
    mod drift;
    mod erasure;
    mod errors;
    mod fan_database;
    mod fan_service;
    mod fans;
    mod feeds;
    mod foreign_writes;
    mod foreign_writes_walk;
    mod friends_in_room;
    mod garbage;
    mod gateways;
    mod gateways_walk;
    mod guests;
    mod handshakes;
    mod heartbeats;
    mod hidden;
    mod history;
    mod hosts;
    mod http_fans;
    mod http_follows;
    mod http_lives;
    mod http_users;
    mod joining;
    mod key_prefix;
    mod keys_command;
    mod lasting_bans;
    mod leaving;
    mod lives_command;
    mod log_lines;
    mod media_real;
    mod media_servers;
    mod older_data;
    mod online;
    mod online_users;
    mod opening;
    mod operations;
    mod pace;
    mod partition;
    mod presence;
    mod random_walk;
    mod refreshing;
    mod reloading;
    mod removals;
    mod request_ids;
    mod room_info;
    mod rough_redis;
    mod several_webhooks;
    mod shape;
    mod socket_limits;
    mod starting;
    mod still;
    mod storm;
    mod streamer_timeout;
    mod swiping;
    mod thousand;
    mod tls;
    mod tokens;
    mod uncounted;
    mod unheard;
    mod viewer_counts;
    mod viewers;
    mod watching;
    mod webhooks;
    mod when_redis_is_down;
    mod wrong_input;
}
