//! The HTTP edge: which path leads to which handler, on which port.
//!
//! A noun per file: [`lives`], [`fans`], [`removals`], [`follows`], [`gateway`], [`health`], [`pages`]. Handlers read a
//! request ([`requests`], [`paging`]), ask the core or the store, and write the answer or a [`problem`] down; they hold
//! no state. The wiring hands the routers to the listener.

mod fans;
mod follows;
pub mod gateway;
mod health;
mod lives;
mod middleware;
mod openapi;
mod pages;
mod paging;
pub(crate) mod problem;
mod removals;
mod requests;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod upgrade;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::fans::Snapshots;
pub use self::problem::ALL as PROBLEMS;
use self::problem::{Kind, Problem};
use crate::base::clock::Clock;
use crate::base::metrics::Metrics;
use crate::config::AuthMode;
use crate::edge::admission::Admission;
use crate::presence::Rooms;
use crate::presence::gateways::Gateways;
use crate::session::shared::Shared;
use crate::store::Store;
use crate::sync::follows::Follows;
use crate::sync::lives::Lives;
use crate::sync::removals::Removals;

/// The largest body that is read; no useful one has more than some hundred bytes.
const MAX_BODY: usize = 64 << 10;

/// What the handlers ask.
pub(crate) struct Api {
    pub(crate) store: Arc<dyn Store>,
    /// The store's share for what clients ask.
    pub(crate) store_for_clients: Arc<dyn Store>,
    pub(crate) rooms: Arc<Rooms>,
    pub(crate) gateways: Arc<Gateways>,
    pub(crate) lives: Arc<Lives>,
    pub(crate) follows: Follows,
    pub(crate) removals: Removals,
    pub(crate) sessions: Arc<Shared>,
    pub(crate) admission: Admission,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) auth: AuthMode,
}

#[derive(Clone)]
pub(crate) struct ApiState {
    pub(crate) api: Arc<Api>,
    snapshots: Snapshots,
    document: Bytes,
}

/// The routes of the public port: all of them, unless there is an internal port.
pub(crate) fn public(api: Arc<Api>, has_internal_port: bool) -> Router {
    if has_internal_port {
        finish(api, socket().merge(probes()), false)
    } else {
        finish(api, socket().merge(probes()).merge(back_ends()), true)
    }
}

/// The routes of the internal port: all but the WebSocket.
pub(crate) fn admin(api: Arc<Api>) -> Router {
    finish(api, probes().merge(back_ends()), true)
}

fn socket() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(upgrade::upgrade))
}

fn probes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(health::healthz)).routes(routes!(health::readyz))
}

fn back_ends() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(lives::list))
        .routes(routes!(lives::open, lives::close, lives::show))
        .routes(routes!(fans::list))
        .routes(routes!(fans::presence))
        .routes(routes!(removals::remove))
        .routes(routes!(removals::lift))
        .routes(routes!(removals::list))
        .routes(routes!(follows::follow, follows::unfollow))
        .routes(routes!(follows::following))
        .routes(routes!(follows::followers))
        .routes(routes!(gateway::slices))
        .routes(routes!(gateway::viewer))
        .routes(routes!(health::metrics))
}

/// The whole API, whichever port serves which part of it.
fn document() -> Bytes {
    let mut head = openapi::Head::openapi();
    // utoipa takes it from the package, which names none.
    head.info.license = None;
    let whole = OpenApiRouter::with_openapi(head).merge(socket()).merge(probes()).merge(back_ends());
    whole.into_openapi().to_json().unwrap_or_default().into()
}

fn finish(api: Arc<Api>, routes: OpenApiRouter<ApiState>, with_pages: bool) -> Router {
    let (mut router, _) = routes.split_for_parts();
    if with_pages {
        router = router.route("/", get(pages::index)).route("/openapi.json", get(describe));
    }
    with_middleware(
        router,
        ApiState { snapshots: Snapshots::new(api.store_for_clients.clone(), api.clock), api, document: document() },
    )
}

fn with_middleware(router: Router<ApiState>, state: ApiState) -> Router {
    router
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(axum::middleware::from_fn_with_state(state.clone(), middleware::guard))
        .with_state(state)
}

async fn describe(State(state): State<ApiState>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], state.document)
}

async fn nothing_here() -> Problem {
    Problem::new(Kind::NotFound, "no route has this path; /openapi.json lists them")
}

async fn wrong_method() -> Problem {
    Problem::new(Kind::MethodNotAllowed, "the header Allow names the methods that this path takes")
}
