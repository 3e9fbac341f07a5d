//! Which path leads to which handler, on which port. A new route is added here: its method and path stand in the
//! `#[utoipa::path]` of its handler. The wiring hands the routers to the listener.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::routing::get;
use bytes::Bytes;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::{Kind, Problem};
use super::state::AppState;
use super::{fans, follows, gateway, health, lives, middleware, openapi, pages, removals, sharing, upgrade};

/// The largest request body; a useful one has some hundred bytes.
const MAX_BODY: usize = 64 << 10;

type Routes = OpenApiRouter<Arc<AppState>>;

/// The routes of the public port: all of them, unless there is an internal port.
pub(crate) fn public(state: Arc<AppState>, has_internal_port: bool) -> Router {
    let for_clients = socket().merge(probes());
    let router =
        if has_internal_port { router(for_clients) } else { with_pages(router(for_clients.merge(back_ends()))) };
    with_middleware(router, state)
}

/// The routes of the internal port: all but the WebSocket.
pub(crate) fn admin(state: Arc<AppState>) -> Router {
    with_middleware(with_pages(router(probes().merge(back_ends()))), state)
}

fn socket() -> Routes {
    OpenApiRouter::new().routes(routes!(upgrade::upgrade)).routes(routes!(upgrade::probe::admission))
}

fn probes() -> Routes {
    OpenApiRouter::new().routes(routes!(health::healthz)).routes(routes!(health::readyz))
}

fn back_ends() -> Routes {
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

fn router(routes: Routes) -> Router<Arc<AppState>> {
    routes.split_for_parts().0
}

/// Adds the page for people, and the OpenAPI document.
fn with_pages(router: Router<Arc<AppState>>) -> Router<Arc<AppState>> {
    let document = document();
    let describe = async move || ([(header::CONTENT_TYPE, "application/json")], document);
    router.route("/", get(pages::index)).route("/openapi.json", get(describe))
}

/// The OpenAPI document: of the whole API, whichever port serves which part of it.
fn document() -> Bytes {
    let mut head = openapi::Head::openapi();
    // utoipa fills it in from the package, which names no license.
    head.info.license = None;
    let whole = OpenApiRouter::with_openapi(head).merge(socket()).merge(probes()).merge(back_ends());
    whole.into_openapi().to_json().unwrap_or_default().into()
}

pub(super) fn with_middleware(router: Router<Arc<AppState>>, state: Arc<AppState>) -> Router {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(axum::middleware::from_fn_with_state(state.clone(), sharing::guard))
        .layer(axum::middleware::from_fn_with_state(state.clone(), middleware::guard))
        .with_state(state)
}

async fn not_found() -> Problem {
    Problem::new(Kind::NotFound, "no route has this path; /openapi.json lists them")
}

async fn method_not_allowed() -> Problem {
    Problem::new(Kind::MethodNotAllowed, "the header Allow names the methods that this path takes")
}
