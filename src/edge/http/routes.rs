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
use super::pages::{self, PagesApi};
use super::problem::{Problem, ProblemKind};
use super::requests::{MAX_BODY, MaxBody};
use super::state::AppState;
use super::{
    asyncapi, audit, beats, fans, follows, gateway, guests, health, infos, live_changes,
    live_lists, lives, logging, middleware, online, online_list, openapi, presence, reloading,
    removals, sharing, upgrade, viewers,
};
use crate::auth::permissions::Action;

/// The largest body that names many users or lives: a thousand of the longest ids, with room for
/// white space.
const MAX_IDS_BODY: usize = 96 << 10;

const SOCKET: &str = "/ws";

/// Adds the routes of a feature.
pub(crate) type AddRoutes = fn(Routes) -> Routes;

/// What all features add, a part of [`AppState`].
#[derive(Clone)]
pub(crate) struct AddedRoutes(pub(crate) Arc<[AddRoutes]>);

/// Routes, with their description. There are three ways to add one, so that each says who may
/// call it.
pub(crate) struct Routes {
    state: Arc<AppState>,
    accepts: Accepts,
    /// Whether this port serves the API; otherwise only what anybody may call.
    serves_api: bool,
    router: OpenApiRouter<Arc<AppState>>,
}

impl Routes {
    fn new(state: &Arc<AppState>, accepts: Accepts, serves_api: bool) -> Self {
        let head = OpenApiRouter::with_openapi(openapi::DocumentHead::openapi());
        Self {
            state: state.clone(),
            accepts,
            serves_api,
            router: head,
        }
    }

    /// Anybody may call it.
    pub(crate) fn open_to_all(self, route: UtoipaMethodRouter<Arc<AppState>>) -> Self {
        self.unguarded(route, Refuse::Misspelt)
    }

    /// The handler checks who may call it.
    pub(crate) fn with_own_check(self, route: UtoipaMethodRouter<Arc<AppState>>) -> Self {
        self.unguarded(route, Refuse::Unknown)
    }

    fn unguarded(mut self, route: UtoipaMethodRouter<Arc<AppState>>, refuse: Refuse) -> Self {
        let (schemas, mut paths, methods) = route;
        openapi::describe_requests(&mut paths);
        let known = KnownFields::of(&paths, refuse);
        let methods = methods.route_layer(from_fn_with_state(known, known_fields::check));
        self.router = self.router.routes((schemas, paths, methods));
        self
    }

    /// Only callers who may do `action` may call it.
    pub(crate) fn only_for(
        mut self,
        action: Action,
        route: UtoipaMethodRouter<Arc<AppState>>,
    ) -> Self {
        if !self.serves_api {
            return self;
        }
        let (schemas, mut paths, methods) = route;
        openapi::describe_requests(&mut paths);
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
            .with_own_check(routes!(guests::make))
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
            .only_for(Action::RemoveViewer, routes!(removals::remove))
            .only_for(Action::Moderate, routes!(removals::ban, removals::lift))
            .only_for(Action::ListBans, routes!(removals::list))
            .only_for(Action::Follow, routes!(follows::follow, follows::unfollow))
            .only_for(Action::ReadFollows, routes!(follows::show))
            .only_for(Action::ReadFollows, routes!(follows::following))
            .only_for(Action::ReadFollows, routes!(follows::followers))
            .only_for(Action::ReadOnline, routes!(online::count))
            .only_for(Action::ReadOnline, routes!(online_list::list))
            .only_for(Action::ForgetSeen, routes!(online::forget))
            .only_for(Action::ReadOnline, with_many_ids(routes!(online::query)))
            .only_for(Action::NoteSeen, with_many_ids(routes!(beats::seen)))
            .only_for(Action::Beat, routes!(beats::beat))
            .only_for(Action::ReadGateway, routes!(gateway::slices))
            .only_for(Action::ReadGateway, routes!(gateway::viewer))
            .only_for(Action::ReadGateway, routes!(logging::show))
            .only_for(Action::ChangeLog, routes!(logging::change))
            .only_for(Action::Reload, routes!(reloading::reload))
    }

    /// The routes of features.
    fn added(self) -> Self {
        match self.state.parts.get::<AddedRoutes>().cloned() {
            Some(added) => added.0.iter().fold(self, |routes, add| add(routes)),
            None => self,
        }
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
    // With `--auth off` there are no tokens.
    let serves_api = !has_internal_port || state.tokens.is_some();
    let accepts = if has_internal_port {
        Accepts::Tokens
    } else {
        Accepts::KeysAndTokens
    };
    let mut routes = Routes::new(state, accepts, serves_api)
        .socket()
        .presence()
        .probes()
        .api()
        .added();
    if !has_internal_port {
        routes = routes.metrics();
    }
    let api = if serves_api {
        PagesApi::Here
    } else {
        PagesApi::Elsewhere
    };
    routes.finish(public_pages(state, api))
}

/// The pages, and the description of the WebSocket, which is on this port only.
fn public_pages(state: &AppState, api: PagesApi) -> Router<Arc<AppState>> {
    pages::public(state, api).merge(asyncapi::route())
}

/// The routes of the internal port: all but the WebSocket. The metrics are open to all there.
pub(crate) fn admin(state: &Arc<AppState>) -> Router {
    Routes::new(state, Accepts::KeysAndTokens, true)
        .probes()
        .api()
        .added()
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
    let components = document.components.get_or_insert_default();
    for schema in components.schemas.values_mut() {
        openapi::describe_fields(schema);
    }
    openapi::describe_listener(&mut document);
    openapi::drop_unused(&mut document);
    // utoipa takes the license from the package, which names none.
    document.info.license = None;
    document.to_json().unwrap_or_default().into()
}

pub(crate) fn with_middleware(router: Router<Arc<AppState>>, state: Arc<AppState>) -> Router {
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
pub(crate) fn with_many_ids(
    route: UtoipaMethodRouter<Arc<AppState>>,
) -> UtoipaMethodRouter<Arc<AppState>> {
    with_body(MAX_IDS_BODY, route)
}

/// A route that takes a longer body than others.
pub(crate) fn with_body(
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
        ProblemKind::NotFound,
        "no route has this path; /openapi.json lists them",
    )
}

async fn method_not_allowed() -> Problem {
    Problem::new(
        ProblemKind::MethodNotAllowed,
        "the header Allow names the methods that this path takes",
    )
}
