//! One gateway as a whole: which tasks run, in which order they start and stop, and what stops
//! them. [`wiring`] makes the parts.
//!
//! This file names the long-lived tasks; a task that ends early ends the process. The listener
//! spawns the tasks of sockets, and a tracker counts them. The start may fail; nothing here fails
//! after it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::{Extension, Router};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use self::check_config::wrong_files;
use self::ports::Ports;
use self::stages::{FailedTask, StopStage};
pub use self::start_error::StartError;
use self::wiring::{FromOutside, GatewayParts};
use crate::auth::api_keys::ApiKeys;
use crate::auth::presence_secret::PresenceSecret;
pub use crate::auth::tokens::OpenError as KeysError;
use crate::auth::tokens::Tokens;
use crate::base::from_files::FromFiles;
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::base::telemetry::Log;
use crate::config::{AuthMode, Config};
use crate::edge::client_address::ClientAddress;
use crate::edge::http;
use crate::edge::http::state::AppState;
use crate::edge::listener::tls::Certificate;
use crate::features::wired::Handlers;
use crate::features::{Opened as OpenedByFeatures, WholeStore};
use crate::peers::publisher::Publisher;
use crate::presence::conn::Signals;
use crate::presence::figures::{Figures, Quality};
use crate::session::drain::{self, Stages};
use crate::session::socketless::shared_secret;
use crate::session::{self, Handshake};
use crate::store::{CloseReason, LiveRecord};
use crate::sync::events::api_events::ApiEvents;
use crate::sync::events::fan_events::FanEvents;
pub use crate::sync::lives::{LiveError, OpenRequest, OpenedLive};

mod check_config;
mod ports;
pub mod process;
mod stages;
mod start_error;
mod store;
pub(crate) mod wiring;

/// Where calls within this process come from.
const THIS_MACHINE: ClientAddress = ClientAddress::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// A running gateway.
pub struct Gateway {
    app: Arc<AppState>,
    publisher: Arc<Publisher>,
    fan_events: Option<Arc<FanEvents>>,
    api_events: Arc<ApiEvents>,
    addr: SocketAddr,
    admin_addr: Option<SocketAddr>,
    /// They stop in this order.
    intake: StopStage,
    readers: StopStage,
    flusher: StopStage,
    /// The last flush needs the lease.
    lease: StopStage,
    sockets: TaskTracker,
    failed: FailedTask,
}

/// Starts a gateway. After an error nothing is left running.
///
/// # Errors
/// The address cannot be bound, the store cannot be opened, or a file of keys cannot be used.
pub async fn start(config: Config) -> Result<Gateway, StartError> {
    start_as(GatewayId::random(), config).await
}

/// Starts a gateway that has its id already.
///
/// # Errors
/// As [`start`].
pub async fn start_as(id: GatewayId, config: Config) -> Result<Gateway, StartError> {
    let settings = config.clone();
    start_part_by_part(id, config)
        .await
        .map_err(|why| with_all_wrong_files(&settings, why))
}

/// The first file that cannot be used ends the start, but the operator should learn of all of them.
fn with_all_wrong_files(config: &Config, why: StartError) -> StartError {
    if !why.is_mistake() {
        return why;
    }
    let wrong = wrong_files(config);
    if wrong.len() > 1 {
        StartError::Settings(wrong.join("\n"))
    } else {
        why
    }
}

async fn start_part_by_part(id: GatewayId, mut config: Config) -> Result<Gateway, StartError> {
    let metrics = Arc::new(Metrics::default());
    let presence_secret = PresenceSecret::open(config.presence_secret_file.clone())
        .map(Arc::new)
        .map_err(StartError::Settings)?;
    let (tokens, key_fetcher) = match config.auth {
        AuthMode::Off => (None, None),
        AuthMode::Jwt => {
            let (tokens, fetcher) = Tokens::open(&config, metrics.clone())?;
            let tokens = if config.guests {
                tokens.with_guests(presence_secret.clone())
            } else {
                tokens
            };
            (Some(Arc::new(tokens)), fetcher)
        }
    };
    let api_keys = Arc::new(ApiKeys::open(&config).map_err(KeysError::File)?);
    let certificate = match (&config.tls_cert, &config.tls_key) {
        (Some(chain), Some(key)) => Some(Arc::new(Certificate::open(chain, key)?)),
        _ => None,
    };
    let of_features = OpenedByFeatures::open(&mut config)?;
    let ports = Ports::bind(&config)?;
    let key_fetcher = match key_fetcher {
        Some(fetcher) => Some(
            fetcher
                .first(config.wait_for_store)
                .await
                .map_err(KeysError::Url)?,
        ),
        None => None,
    };
    let store = store::open(&config, &metrics).await?;
    let mut other_files: Vec<Arc<dyn FromFiles>> = Vec::new();
    if let Some(certificate) = &certificate {
        other_files.push(certificate.clone());
    }
    let from_outside = FromOutside {
        tokens,
        api_keys,
        presence_secret,
        of_features,
        other_files,
    };
    let mut gateway = run(id, &config, from_outside, store, metrics).await?;
    if let Some(key_fetcher) = key_fetcher {
        gateway
            .readers
            .run("key fetcher", |stop| key_fetcher.run(stop));
    }
    gateway.addr = ports.addr;
    gateway.admin_addr = ports.admin_addr;
    ports.serve(&gateway.app, certificate, &gateway.intake, &gateway.sockets);
    let sockets_at_most = gateway.app.admission.limits.sockets;
    let gateway_id = gateway.id();
    let addr = gateway.addr;
    let store = gateway.app.core.store.kind();
    tracing::info!(%gateway_id, store, %addr, sockets_at_most, "gateway started");
    Ok(gateway)
}

/// Starts a gateway without a port, on a store of the caller's. Callers reach it through
/// [`Gateway::router`] and [`Gateway::serve`]. It knows no API keys, sends no webhook, and reads
/// its files once.
///
/// # Errors
/// The store was used with other settings before, or the file of the presence secret or of the
/// keys of tokens cannot be used.
pub async fn start_without_ports(
    config: &Config,
    store: Arc<dyn WholeStore>,
) -> Result<Gateway, StartError> {
    let presence_secret = PresenceSecret::open_once(config.presence_secret_file.clone())
        .map(Arc::new)
        .map_err(StartError::Settings)?;
    let metrics = Arc::new(Metrics::default());
    let tokens = match config.auth {
        AuthMode::Off => None,
        AuthMode::Jwt => Some(Arc::new(Tokens::open_once(config, metrics.clone())?)),
    };
    let from_outside = FromOutside {
        tokens,
        presence_secret,
        ..FromOutside::default()
    };
    run(GatewayId::random(), config, from_outside, store, metrics).await
}

/// Makes the parts of a gateway and starts its tasks, except those that need a file or a port.
async fn run(
    id: GatewayId,
    config: &Config,
    from_outside: FromOutside,
    store: Arc<dyn WholeStore>,
    metrics: Arc<Metrics>,
) -> Result<Gateway, StartError> {
    store::fix_forms(config, store.as_ref()).await?;
    let secret = from_outside.presence_secret.clone();
    if let Err(why) = shared_secret::share(&secret, store.as_ref()).await {
        tracing::info!(error = %why, "other gateways know the sessions without a WebSocket of this one later");
    }
    let sockets = TaskTracker::new();
    let parts = wiring::wire(config, from_outside, &store, &metrics, &sockets)?;
    parts.app.core.gateways.own.begin_as(id);
    let (failed, _) = watch::channel(None);
    let [intake, readers, flusher, lease] = [(); 4].map(|()| StopStage::new(&failed));
    let gateway = Gateway {
        app: parts.app.clone(),
        publisher: parts.publisher.clone(),
        fan_events: parts.fan_events.clone(),
        api_events: parts.api_events.clone(),
        addr: config.listen,
        admin_addr: None,
        intake,
        readers,
        flusher,
        lease,
        sockets,
        failed,
    };
    gateway.start_tasks(parts, secret);
    Ok(gateway)
}

impl Gateway {
    fn start_tasks(&self, parts: GatewayParts, secret: Arc<PresenceSecret>) {
        let app = &self.app;
        self.flusher.run("flush", |stop| parts.flusher.run(stop));
        // The last ends of sessions come when the readers stop.
        self.flusher
            .run("ends of sessions", |stop| parts.session_ends.run(stop));
        self.lease.run("lease", |stop| parts.lease.run(stop));

        let readers = &self.readers;
        readers.run("subscriber", |stop| parts.subscriber.run(stop));
        readers.run("publisher", |stop| parts.publisher.run(stop));
        readers.run("counts", |stop| parts.counts.run(stop));
        readers.run("counts recorder", |stop| parts.recorder.run(stop));
        readers.run("changed records", |stop| parts.changed_records.run(stop));
        readers.run("upkeep", |stop| parts.upkeep.run(stop));
        readers.run("walk", |stop| parts.walk.run(stop));
        readers.run("streamer timeout", |stop| parts.streamer_timeout.run(stop));
        readers.run("reaper", |stop| app.sessions.reaper.clone().run(stop));
        readers.run("sessions without a socket", |stop| {
            app.presences.clone().run(stop)
        });
        readers.run("missed ends of sessions", |stop| {
            app.presences.clone().ask_for_missed_ends(stop)
        });
        readers.run("presence secret", |stop| {
            shared_secret::run(secret, app.core.store.clone(), stop)
        });
        readers.run("reloader", |stop| app.reloader.clone().watch(stop));
        readers.run("log", |stop| {
            Log::of_process().run(app.core.metrics.clone(), stop)
        });
        if let Some(count_events) = parts.count_events {
            readers.run("count events", |stop| count_events.run(stop));
        }
        if let Some(fan_events) = parts.fan_events {
            readers.run("fan events", |stop| fan_events.run(stop));
        }
        let api_events = parts.api_events;
        readers.run("API events", |stop| api_events.run(stop));
        for (name, begin) in parts.of_features {
            readers.run(name, begin);
        }
        for (name, begin) in parts.intake_of_features {
            self.intake.run(name, begin);
        }
    }

    /// The public address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The internal address, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin_addr
    }

    /// This gateway's present id.
    pub fn id(&self) -> GatewayId {
        self.app.core.gateways.id()
    }

    /// Reads keys, secrets and certificates again, as SIGHUP does. A part whose files are bad keeps
    /// what it has, and the log says so.
    pub async fn reload(&self) {
        // The problems are in the log.
        let _ = self.app.reloader.reload().await;
    }

    /// Opens a live, or finds it open, as the HTTP API does.
    pub async fn open_live(&self, wish: OpenRequest) -> Result<OpenedLive, LiveError> {
        self.app.lives.open(wish).await
    }

    /// Closes a live, as the HTTP API does.
    pub async fn close_live(
        &self,
        live: &LiveId,
        reason: CloseReason,
    ) -> Result<LiveRecord, LiveError> {
        self.app.lives.close(live, None, reason).await
    }

    /// The counts of a live that this gateway holds.
    pub fn figures(&self, live: &LiveId) -> Option<Figures> {
        Some(self.app.core.rooms.get(live)?.figures())
    }

    /// How far to trust these counts.
    pub fn quality(&self, live: &LiveId) -> Option<Quality> {
        let room = self.app.core.rooms.get(live)?;
        Some(self.app.sessions.trust.quality(&room))
    }

    /// Whether a user has a seat here in a live that this gateway holds.
    pub fn has_seat(&self, live: &LiveId, user: &UserId) -> bool {
        let room = self.app.core.rooms.get(live);
        room.is_some_and(|room| room.seats.view(user).is_some())
    }

    /// The routes of the internal port, for calls within this process. Such calls count as calls
    /// from this machine.
    pub fn router(&self) -> Router {
        http::routes::admin(&self.app).layer(Extension(THIS_MACHINE))
    }

    /// The routes of the public port, for calls within this process, as [`Self::router`].
    pub fn public_router(&self) -> Router {
        http::routes::public(&self.app, false).layer(Extension(THIS_MACHINE))
    }

    /// What handlers use, for calls within this process.
    pub fn handlers(&self) -> Handlers {
        Handlers(self.app.clone())
    }

    /// Serves one socket over the caller's transport, until the socket ends.
    pub fn serve<S>(&self, transport: S, handshake: Handshake) -> impl Future<Output = ()> + use<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        session::run(self.app.sessions.clone(), transport, Vec::new(), handshake)
    }

    /// Waits until a long-lived task ends early; returns its name.
    pub async fn failed(&self) -> &'static str {
        let mut failed = self.failed.subscribe();
        match failed.wait_for(Option::is_some).await.map(|name| *name) {
            Ok(Some(name)) => name,
            _ => std::future::pending().await,
        }
    }

    /// Stops stage by stage, each within its part of `drain` ([`Stages`]): the gateway reports
    /// itself not ready and admits no sockets, sends its sockets elsewhere, then stops the
    /// listener, the remaining sockets, the readers, and, after a last flush, the flusher. A
    /// gateway that has lost a long-lived task, before or meanwhile, may be unable to keep its
    /// lease, so it sends its sockets elsewhere at once. Returns the name of that task, if any.
    pub async fn stop(self) -> Option<&'static str> {
        let stages = Stages::of(self.app.core.config.drain);
        self.app.sessions.drain();
        self.app.core.metrics.draining.set(1);
        tokio::select! {
            biased;
            _ = self.failed() => drain::run(&self.app.sessions, drain::AT_ONCE).await,
            () = drain::run(&self.app.sessions, stages.moving) => {}
        }
        self.intake.end(stages.intake).await;
        self.app.sessions.reaper.signal_all(Signals::STOP);
        self.sockets.close();
        if tokio::time::timeout(stages.sockets, self.sockets.wait())
            .await
            .is_err()
        {
            tracing::warn!(left = self.sockets.len(), "sockets did not end in time");
        }
        self.readers.end(stages.readers).await;
        // A session that hangs must not keep its seat.
        self.app.core.rooms.want_nobody(self.app.core.clock.now());
        self.flusher.end(stages.last_flush).await;
        self.lease.abort();
        let goodbye = async {
            if let Some(fan_events) = &self.fan_events {
                // The fans whom the last flush took out.
                fan_events.write().await;
            }
            self.api_events.write().await;
            self.publisher.say_goodbye().await;
            self.app
                .core
                .store
                .end_lease(&self.app.core.gateways.id())
                .await
        };
        if !matches!(
            tokio::time::timeout(stages.goodbye, goodbye).await,
            Ok(Ok(()))
        ) {
            tracing::warn!(
                "could not say goodbye; the other gateways learn of this stop when the lease expires"
            );
        }
        tracing::info!(gateway_id = %self.app.core.gateways.id(), "gateway stopped");
        *self.failed.borrow()
    }
}

#[cfg(test)]
mod tests;
