//! The routers of both ports: which path leads to which handler, on which port, and which action
//! its callers must be allowed to do. Add a new route here; its method and path stand in the
//! `#[utoipa::path]` of its handler. The wiring hands the routers to the listener.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use serde_json::json;
use utoipa::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use super::authorization::{Accepts, Guard, authorize, limit};
use super::bill;
use super::known_fields::{self, KnownFields, Refuse};
use super::pages::{self, Api};
use super::problem::{Kind, Problem};
use super::requests::{MAX_BODY, MaxBody};
use super::social::{feeds, lists, statuses};
use super::state::AppState;
use super::{
    asyncapi, attendance, audit, beats, erasures, fans, follows, friends, gateway, health, history,
    infos, live_changes, live_lists, lives, logging, media, middleware, online, online_list,
    openapi, presence, reloading, removals, sessions, sharing, upgrade, users, viewers, webhooks,
};
use crate::auth::permissions::Action;

/// The largest body that names many users or lives: a thousand of the longest ids, with room for
/// white space.
const MAX_IDS_BODY: usize = 96 << 10;

/// The longest callback of a media server, in bytes. LiveKit puts up to 512 KiB of metadata into one,
/// and JSON may double that.
const MAX_CALLBACK_BODY: usize = 1 << 20;

const SOCKET: &str = "/ws";

/// Routes, with their description. There are three ways to add one, so that each says who may
/// call it.
struct Routes {
    state: Arc<AppState>,
    accepts: Accepts,
    router: OpenApiRouter<Arc<AppState>>,
}

impl Routes {
    fn new(state: &Arc<AppState>, accepts: Accepts) -> Self {
        let head = OpenApiRouter::with_openapi(openapi::Head::openapi());
        Self {
            state: state.clone(),
            accepts,
            router: head,
        }
    }

    /// Anybody may call it.
    fn open_to_all(self, route: UtoipaMethodRouter<Arc<AppState>>) -> Self {
        self.unguarded(route, Refuse::Misspelt)
    }

    /// The handler checks who may call it.
    fn with_own_check(self, route: UtoipaMethodRouter<Arc<AppState>>) -> Self {
        self.unguarded(route, Refuse::Unknown)
    }

    fn unguarded(mut self, route: UtoipaMethodRouter<Arc<AppState>>, refuse: Refuse) -> Self {
        let (schemas, paths, methods) = route;
        let known = KnownFields::of(&paths, refuse);
        let methods = methods.route_layer(from_fn_with_state(known, known_fields::check));
        self.router = self.router.routes((schemas, paths, methods));
        self
    }

    /// Only callers who may do `action` may call it.
    fn only_for(mut self, action: Action, route: UtoipaMethodRouter<Arc<AppState>>) -> Self {
        let (schemas, mut paths, methods) = route;
        openapi::describe_callers(&mut paths, action, self.accepts);
        let known = KnownFields::of(&paths, Refuse::Unknown);
        let guard = Guard {
            state: self.state.clone(),
            action,
            accepts: self.accepts,
        };
        let mut methods = methods.route_layer(from_fn_with_state(known, known_fields::check));
        if action.is_audited() {
            methods = methods.route_layer(from_fn_with_state(self.state.clone(), audit::record));
        }
        // The guard is the outer layer: a caller whom it refuses learns nothing about the fields.
        let guarded = methods.route_layer(from_fn_with_state(guard, authorize));
        self.router = self.router.routes((schemas, paths, guarded));
        self
    }

    fn socket(self) -> Self {
        self.open_to_all(routes!(upgrade::upgrade))
            .open_to_all(routes!(upgrade::probe::admission))
    }

    fn presence(self) -> Self {
        self.with_own_check(routes!(presence::joining::begin))
            .with_own_check(routes!(presence::beats::beat, presence::beats::leave))
            .with_own_check(routes!(presence::events::of_session))
    }

    fn probes(self) -> Self {
        self.open_to_all(routes!(health::healthz))
            .open_to_all(routes!(health::readyz))
    }

    fn api(self) -> Self {
        self.only_for(Action::ListLives, routes!(live_lists::list))
            .only_for(Action::ListLives, with_many_ids(routes!(live_lists::query)))
            .only_for(Action::Open, routes!(lives::open))
            .only_for(Action::Change, routes!(live_changes::change))
            .only_for(Action::Close, routes!(lives::close))
            .only_for(Action::ReadLive, routes!(lives::show))
            .only_for(Action::Watch, routes!(presence::events::of_live))
            .only_for(Action::WriteInfo, routes!(infos::write))
            .only_for(Action::ReadLive, routes!(infos::show))
            .only_for(Action::ReadLive, routes!(viewers::list))
            .only_for(Action::ReadLive, routes!(fans::list))
            .only_for(Action::ReadLive, routes!(fans::presence))
            .only_for(Action::ReadLive, routes!(history::show))
            .only_for(Action::ReadPastLives, routes!(history::past))
            .only_for(Action::ReadPastLives, routes!(live_lists::of_streamer))
            .only_for(Action::ReadLive, routes!(sessions::list))
            .only_for(Action::ReadAttendance, routes!(attendance::find))
            .only_for(Action::Moderate, routes!(removals::remove))
            .only_for(Action::Moderate, routes!(removals::ban, removals::lift))
            .only_for(Action::ListBans, routes!(removals::list))
            .only_for(Action::Follow, routes!(follows::follow, follows::unfollow))
            .only_for(Action::ReadFollows, routes!(follows::show))
            .only_for(Action::ReadFollows, routes!(follows::following))
            .only_for(Action::ReadFollows, routes!(follows::followers))
            .only_for(Action::WriteUser, routes!(users::create))
            .only_for(Action::WriteUser, routes!(users::put))
            .only_for(Action::ReadUser, routes!(users::show))
            .only_for(Action::Erase, routes!(erasures::erase))
            .only_for(Action::Erase, routes!(erasures::show))
            .only_for(Action::ReadFeeds, routes!(feeds::feed))
            .only_for(Action::ReadFeeds, routes!(feeds::home))
            .only_for(Action::ReadFeeds, routes!(feeds::profile))
            .only_for(Action::ReadFeeds, routes!(statuses::show))
            .only_for(Action::Announce, routes!(statuses::post))
            .only_for(Action::Announce, routes!(statuses::delete))
            .only_for(Action::WriteList, routes!(lists::put, lists::take_out))
            .only_for(Action::ReadFeeds, routes!(lists::members))
            .only_for(Action::ReadFeeds, routes!(lists::timeline))
            .only_for(Action::ReadOnline, routes!(friends::online))
            .only_for(Action::ReadOnline, routes!(online::count))
            .only_for(Action::ReadOnline, routes!(online_list::list))
            .only_for(Action::ForgetSeen, routes!(online::forget))
            .only_for(Action::ReadOnline, with_many_ids(routes!(online::query)))
            .only_for(Action::NoteSeen, with_many_ids(routes!(beats::seen)))
            .only_for(Action::Beat, routes!(beats::beat))
            .only_for(Action::ReadWebhooks, routes!(webhooks::list))
            .only_for(Action::ReadWebhooks, routes!(webhooks::deliveries))
            .only_for(Action::SendToWebhook, routes!(webhooks::test))
            .only_for(Action::SendToWebhook, routes!(webhooks::replay_span))
            .only_for(Action::ReadGateway, routes!(gateway::slices))
            .only_for(Action::ReadGateway, routes!(gateway::viewer))
            .only_for(Action::ReadGateway, routes!(logging::show))
            .only_for(Action::ChangeLog, routes!(logging::change))
            .only_for(Action::Reload, routes!(reloading::reload))
    }

    fn media(self) -> Self {
        self.open_to_all(with_body(MAX_CALLBACK_BODY, routes!(media::callback)))
    }

    fn metrics(self) -> Self {
        self.only_for(Action::ReadMetrics, routes!(health::metrics))
    }

    /// Adds the pages for people, the OpenAPI document, and the layers that surround every route.
    fn finish(self, pages: Router<Arc<AppState>>) -> Router {
        let (router, document) = self.router.split_for_parts();
        let document = text_of(document);
        let pages = pages
            .route(
                "/openapi.json",
                get(async move || ([(header::CONTENT_TYPE, "application/json")], document)),
            )
            .route_layer(from_fn_with_state(self.state.clone(), limit));
        with_middleware(router.merge(pages), self.state)
    }
}

/// The routes of the public port: all of them. If the gateway has an internal port too, the public
/// port serves no metrics, and the API only to the bearers of tokens.
pub(crate) fn public(state: &Arc<AppState>, has_internal_port: bool) -> Router {
    if !has_internal_port {
        let whole = Routes::new(state, Accepts::KeysAndTokens)
            .socket()
            .presence()
            .probes()
            .media()
            .api()
            .metrics();
        return whole.finish(public_pages(state, Api::Here));
    }
    let routes = Routes::new(state, Accepts::Tokens)
        .socket()
        .presence()
        .probes()
        .media();
    // With `--auth off` there are no tokens.
    if state.tokens.is_some() {
        routes.api().finish(public_pages(state, Api::Here))
    } else {
        routes.finish(public_pages(state, Api::Elsewhere))
    }
}

/// The pages, and the description of the WebSocket, which is on this port only.
fn public_pages(state: &AppState, api: Api) -> Router<Arc<AppState>> {
    pages::public(state, api).merge(asyncapi::route())
}

/// The routes of the internal port: all but the WebSocket. The metrics are open to all there.
pub(crate) fn admin(state: &Arc<AppState>) -> Router {
    Routes::new(state, Accepts::KeysAndTokens)
        .probes()
        .media()
        .api()
        .open_to_all(routes!(health::metrics))
        .finish(pages::internal())
}

/// The text of the OpenAPI document, which describes what its port serves.
fn text_of(mut document: utoipa::openapi::OpenApi) -> Bytes {
    // OpenAPI cannot describe a WebSocket: a plain GET of this path gets 426.
    if let Some(socket) = document.paths.paths.remove(SOCKET) {
        document
            .extensions
            .get_or_insert_default()
            .insert(openapi::WEBSOCKET.to_owned(), json!({SOCKET: socket}));
    }
    openapi::name_items(&mut document);
    openapi::close_schemas(&mut document);
    openapi::describe_fields(&mut document);
    openapi::describe_listener(&mut document);
    openapi::drop_unused(&mut document);
    // utoipa takes the license from the package, which names none.
    document.info.license = None;
    document.to_json().unwrap_or_default().into()
}

pub(super) fn with_middleware(router: Router<Arc<AppState>>, state: Arc<AppState>) -> Router {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(Extension(MaxBody(MAX_BODY as u64)))
        .layer(from_fn(middleware::guard))
        .layer(from_fn_with_state(state.clone(), sharing::guard))
        .layer(from_fn_with_state(state.clone(), bill::charge))
        .layer(from_fn_with_state(state.clone(), middleware::finish))
        .with_state(state)
}

/// A route whose body names up to a thousand users or lives.
fn with_many_ids(route: UtoipaMethodRouter<Arc<AppState>>) -> UtoipaMethodRouter<Arc<AppState>> {
    with_body(MAX_IDS_BODY, route)
}

/// A route that takes a longer body than others.
fn with_body(
    max: usize,
    route: UtoipaMethodRouter<Arc<AppState>>,
) -> UtoipaMethodRouter<Arc<AppState>> {
    let (schemas, paths, methods) = route;
    let methods = methods
        .layer::<_, Infallible>(DefaultBodyLimit::max(max))
        .layer::<_, Infallible>(Extension(MaxBody(max as u64)));
    (schemas, paths, methods)
}

async fn not_found() -> Problem {
    Problem::new(
        Kind::NotFound,
        "no route has this path; /openapi.json lists them",
    )
}

async fn method_not_allowed() -> Problem {
    Problem::new(
        Kind::MethodNotAllowed,
        "the header Allow names the methods that this path takes",
    )
}
