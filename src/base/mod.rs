//! What every other layer builds on: ids, time, metrics and small tools. Imports nothing of this
//! crate outside this folder.

pub mod actor;
pub(crate) mod backoff;
pub(crate) mod budgets;
pub mod clock;
pub mod event_kind;
pub mod exit;
pub mod from_files;
pub mod gateway_url;
pub(crate) mod gcra;
pub(crate) mod http_answer;
pub(crate) mod http_client;
pub mod identity;
pub mod ids;
pub(crate) mod json_error;
pub mod key_prefix;
pub(crate) mod keyed_permits;
pub mod media_event;
pub mod media_server;
pub mod metrics;
pub mod process;
pub(crate) mod public_address;
pub mod rate_limiter;
pub mod redis_address;
pub mod secret;
pub(crate) mod secret_lines;
pub mod service_manager;
pub mod session_key;
mod slice_of_user;
pub(crate) mod slow_jobs;
pub mod socket_id;
pub mod telemetry;
pub mod terminal;
pub mod timer_wheel;
pub mod user_digest;
pub mod web_origin;
pub mod webhook_name;
