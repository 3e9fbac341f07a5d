//! The messages on the WebSocket, described for programs: the AsyncAPI document that the public port
//! serves. It is written by hand; the tests hold it against the messages that are sent and read, and
//! against the types of the client.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::routing::get;

use super::state::AppState;

const DOCUMENT: &str = include_str!("asyncapi.json");

pub(crate) fn route() -> Router<Arc<AppState>> {
    let answer = ([(header::CONTENT_TYPE, "application/json")], DOCUMENT);
    Router::new().route("/asyncapi.json", get(async move || answer))
}
