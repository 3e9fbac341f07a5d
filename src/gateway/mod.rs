//! One gateway as a whole: which tasks run, in which order they start and stop, and what stops
//! them. `parts.rs` makes the tasks.
//!
//! This file spawns and names the long-lived tasks; a task that ends early ends the process. The
//! listener spawns the tasks of sockets, and a tracker counts them. The start may fail; nothing
//! here fails after it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use parts::{Parts, SetupError, Verifiers};

use crate::auth::api_keys::ApiKeys;
use crate::auth::presence_secret::PresenceSecret;
pub use crate::auth::tokens::OpenError as KeysError;
use crate::auth::tokens::Tokens;
use crate::base::clock::Clock;
use crate::base::from_files::FromFiles;
use crate::base::ids::{GatewayId, LiveId};
use crate::base::metrics::Metrics;
use crate::base::telemetry::Log;
use crate::cli::check_config::wrong_files;
use crate::config::{AuthMode, Config};
use crate::edge::client_address::{ClientAddress, TrustedProxies};
use crate::edge::datagrams::{self, DatagramDoor, DatagramSocket, Resumptions};
use crate::edge::http::state::AppState;
use crate::edge::listener::PortSettings;
use crate::edge::listener::pending_connections::PerAddress;
use crate::edge::listener::tls::{Certificate, CertificateError};
use crate::edge::media::setup_error::MediaSetupError;
use crate::edge::{http, listener};
use crate::peers::publisher::Publisher;
use crate::presence::conn::Signals;
use crate::presence::figures::{Figures, Quality};
use crate::session::drain::{self, Stages};
use crate::session::socketless::shared_secret;
use crate::session::{self, Handshake};
use crate::store::fans::FanSetupError;
use crate::store::memory::MemoryStore;
use crate::store::redis::{Access, ConnectError, RedisStore};
use crate::store::{CloseReason, LiveRecord, QueueKind, Store};
use crate::sync::events::api_events::ApiEvents;
use crate::sync::events::fan_events::FanEvents;
pub use crate::sync::lives::{LiveError, OpenRequest, Opened};
use crate::sync::webhooks::{Endpoint, Endpoints, WebhookSender};

pub(crate) mod parts;
pub mod process;

/// Connections that the kernel accepts ahead of the listener. `net.core.somaxconn` (4096) also
/// bounds them.
const BACKLOG: u32 = 16_384;

/// Where calls within this process come from.
const THIS_MACHINE: ClientAddress = ClientAddress::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));

/// Why a gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be bound.
    #[error("cannot listen on {0}: {1}")]
    Address(SocketAddr, std::io::Error),
    /// The store cannot be opened.
    #[error("{0}")]
    Store(#[from] ConnectError),
    /// The store was used with other settings before, or several files cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The keys that verify tokens and back ends cannot be read or fetched.
    #[error("{0}")]
    Keys(#[from] KeysError),
    /// The certificate of the public address cannot be used.
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    /// The fan source cannot be used as it is set up.
    #[error("{0}")]
    FanSource(FanSetupError),
    /// A media server cannot be used as it is set up.
    #[error("{0}")]
    Media(MediaSetupError),
}

impl From<SetupError> for StartError {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::FanSource(why) => Self::FanSource(why),
            SetupError::Media(why) => Self::Media(why),
        }
    }
}

impl StartError {
    /// Whether only other settings or other files can help; otherwise a second try may succeed.
    pub fn is_mistake(&self) -> bool {
        match self {
            Self::Keys(KeysError::File(_))
            | Self::Certificate(_)
            | Self::Settings(_)
            | Self::FanSource(_)
            | Self::Media(_) => true,
            Self::Store(why) => why.is_mistake(),
            Self::Keys(KeysError::Url(_)) | Self::Address(..) => false,
        }
    }
}

/// A running gateway.
pub struct Gateway {
    app: Arc<AppState>,
    drain: Duration,
    publisher: Arc<Publisher>,
    fan_events: Option<Arc<FanEvents>>,
    api_events: Option<Arc<ApiEvents>>,
    addr: SocketAddr,
    admin_addr: Option<SocketAddr>,
    intake: Stage,
    readers: Stage,
    flusher: Stage,
    lease: Stage,
    sockets: TaskTracker,
    failed: watch::Sender<Option<&'static str>>,
}

/// Tasks that stop together.
struct Stage {
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Cancelled when the tasks did not end in time.
    give_up: CancellationToken,
}

impl Stage {
    fn new() -> Self {
        Self {
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            give_up: CancellationToken::new(),
        }
    }

    /// Starts a long-lived task. If it ends before `stop`, its name goes into `failed`.
    fn spawn(
        &self,
        name: &'static str,
        failed: &watch::Sender<Option<&'static str>>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        let give_up = self.give_up.clone();
        let failed = failed.clone();
        let mut running = tokio::spawn(task);
        self.tasks.spawn(async move {
            let ended = tokio::select! {
                ended = &mut running => ended,
                () = give_up.cancelled() => return running.abort(),
            };
            if ended.is_err() || !stop.is_cancelled() {
                tracing::error!(task = name, "a task that must not end has ended");
                failed.send_replace(Some(name));
            }
        });
    }

    /// Ends the tasks at once, in the middle of their work.
    fn abort(&self) {
        self.stop.cancel();
        self.give_up.cancel();
    }

    async fn end(&self, within: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(within, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(left = self.tasks.len(), "tasks did not end in time");
            self.give_up.cancel();
        }
    }
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
    let (tokens, key_fetcher) = match config.auth {
        AuthMode::Off => (None, None),
        AuthMode::Jwt => {
            let (tokens, fetcher) = Tokens::open(&config, metrics.clone())?;
            (Some(Arc::new(tokens)), fetcher)
        }
    };
    let api_keys = Arc::new(ApiKeys::open(&config).map_err(KeysError::File)?);
    let certificate = match (&config.tls_cert, &config.tls_key) {
        (Some(chain), Some(key)) => Some(Arc::new(Certificate::open(chain, key)?)),
        _ => None,
    };
    let webhooks =
        Endpoints::open(&config).map_err(|wrong| StartError::Settings(wrong.join("\n")))?;
    let (public, addr) = listen(config.listen)?;
    let mut admin = None;
    let mut admin_addr = None;
    if let Some(wanted) = config.admin_listen {
        let (listener, addr) = listen(wanted)?;
        admin = Some(listener);
        admin_addr = Some(addr);
    }
    let mut datagram_sockets = Vec::new();
    if let Some(wanted) = config.udp {
        let (sockets, addr) = bind_datagrams(wanted)?;
        datagram_sockets = sockets;
        // With the real port instead of port 0: clients are told this address.
        config.udp = Some(addr);
    }
    let key_fetcher = match key_fetcher {
        Some(fetcher) => Some(
            fetcher
                .first(config.wait_for_store)
                .await
                .map_err(KeysError::Url)?,
        ),
        None => None,
    };
    let store = open_store(&config, &metrics).await?;
    let mut other_files: Vec<Arc<dyn FromFiles>> = Vec::new();
    if let Some(certificate) = &certificate {
        other_files.push(certificate.clone());
    }
    let presence_secret = PresenceSecret::open(config.presence_secret_file.clone())
        .map(Arc::new)
        .map_err(StartError::Settings)?;
    let verifiers = Verifiers {
        tokens,
        api_keys,
        presence_secret,
        webhooks,
        other_files,
    };
    let mut gateway = run(id, &config, verifiers, store, metrics).await?;
    if let Some(key_fetcher) = key_fetcher {
        let stop = gateway.readers.stop.clone();
        gateway
            .readers
            .spawn("key fetcher", &gateway.failed, key_fetcher.run(stop));
    }
    for endpoint in gateway.app.webhooks.iter() {
        for kind in QueueKind::ALL {
            let sender = webhook_sender(&config, endpoint, kind, &gateway.app);
            let stop = gateway.readers.stop.clone();
            gateway
                .readers
                .spawn("webhooks", &gateway.failed, sender.run(stop));
        }
    }
    gateway.addr = addr;
    gateway.admin_addr = admin_addr;
    gateway.serve_ports(&config, certificate, public, admin);
    if let Some(udp) = config.udp {
        tracing::info!(%udp, sockets = datagram_sockets.len(), "taking heartbeats by datagram");
        gateway.serve_datagrams(datagram_sockets);
    }
    let sockets_at_most = gateway.app.admission.limits.sockets;
    let gateway_id = gateway.id();
    let store = gateway.app.store.kind();
    tracing::info!(%gateway_id, store, %addr, sockets_at_most, "gateway started");
    Ok(gateway)
}

/// Starts a gateway without a port, on a store of the caller's. Callers reach it through
/// [`Gateway::router`] and [`Gateway::serve`]. It asks for no credentials, sends no webhook,
/// and reads its files once.
///
/// # Errors
/// The store was used with other settings before, or the file of the presence secret cannot be
/// used.
pub async fn start_without_ports(
    config: &Config,
    store: Arc<dyn Store>,
) -> Result<Gateway, StartError> {
    let presence_secret = PresenceSecret::open_once(config.presence_secret_file.clone())
        .map(Arc::new)
        .map_err(StartError::Settings)?;
    let verifiers = Verifiers {
        presence_secret,
        ..Verifiers::default()
    };
    run(
        GatewayId::random(),
        config,
        verifiers,
        store,
        Arc::default(),
    )
    .await
}

/// Makes the parts of a gateway and starts its tasks, except those that need a file or a port.
async fn run(
    id: GatewayId,
    config: &Config,
    verifiers: Verifiers,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
) -> Result<Gateway, StartError> {
    if config.track_online {
        fix_seen_ids(config, store.as_ref()).await?;
    }
    fix_attendance_form(config, store.as_ref()).await?;
    let presence_secret = verifiers.presence_secret.clone();
    if let Err(why) = shared_secret::share(&presence_secret, store.as_ref()).await {
        tracing::info!(error = %why, "other gateways know the sessions without a WebSocket of this one later");
    }
    let sockets = TaskTracker::new();
    let parts = Parts::new(config, verifiers, &store, &metrics, &sockets)?;
    let app = parts.app;
    app.gateways.own.begin_as(id);

    let intake = Stage::new();
    let readers = Stage::new();
    let flusher = Stage::new();
    let lease = Stage::new();
    let (failed, _) = watch::channel(None);
    flusher.spawn("flush", &failed, parts.flusher.run(flusher.stop.clone()));
    // The last ends of sessions come when the readers stop.
    flusher.spawn(
        "ends of sessions",
        &failed,
        parts.session_ends.run(flusher.stop.clone()),
    );
    // The lease is in a stage of its own, which stops last: the last flush needs the lease.
    lease.spawn("lease", &failed, parts.lease.run(lease.stop.clone()));
    readers.spawn("counts", &failed, parts.counts.run(readers.stop.clone()));
    readers.spawn("friends", &failed, parts.friends.run(readers.stop.clone()));
    readers.spawn(
        "counts recorder",
        &failed,
        parts.recorder.run(readers.stop.clone()),
    );
    readers.spawn(
        "subscriber",
        &failed,
        parts.subscriber.run(readers.stop.clone()),
    );
    readers.spawn(
        "changed records",
        &failed,
        parts.changed_records.run(readers.stop.clone()),
    );
    readers.spawn(
        "publisher",
        &failed,
        parts.publisher.clone().run(readers.stop.clone()),
    );
    readers.spawn("upkeep", &failed, parts.upkeep.run(readers.stop.clone()));
    readers.spawn(
        "reaper",
        &failed,
        app.sessions.reaper.clone().run(readers.stop.clone()),
    );
    readers.spawn(
        "sessions without a socket",
        &failed,
        app.presences.clone().run(readers.stop.clone()),
    );
    readers.spawn(
        "presence secret",
        &failed,
        shared_secret::run(presence_secret, store.clone(), readers.stop.clone()),
    );
    readers.spawn(
        "missed ends of sessions",
        &failed,
        app.presences
            .clone()
            .ask_for_missed_ends(readers.stop.clone()),
    );
    readers.spawn(
        "streamer timeout",
        &failed,
        parts.streamer_timeout.run(readers.stop.clone()),
    );
    readers.spawn("streams", &failed, parts.streams.run(readers.stop.clone()));
    if let Some(poller) = parts.poller {
        readers.spawn("media poller", &failed, poller.run(readers.stop.clone()));
    }
    if let Some(fan_asker) = parts.fan_asker {
        readers.spawn("fan asker", &failed, fan_asker.run(readers.stop.clone()));
    }
    readers.spawn(
        "reloader",
        &failed,
        app.reloader.clone().watch(readers.stop.clone()),
    );
    readers.spawn("fan-out", &failed, parts.fanout.run(readers.stop.clone()));
    readers.spawn("erasure", &failed, parts.erasing.run(readers.stop.clone()));
    readers.spawn(
        "sessions of erased users",
        &failed,
        session::erasing::run(app.sessions.clone(), readers.stop.clone()),
    );
    readers.spawn(
        "log",
        &failed,
        Log::of_process().run(app.metrics.clone(), readers.stop.clone()),
    );
    readers.spawn("walk", &failed, parts.walk.run(readers.stop.clone()));
    if let Some(count_events) = parts.count_events {
        readers.spawn(
            "count events",
            &failed,
            count_events.run(readers.stop.clone()),
        );
    }
    if let Some(fan_events) = &parts.fan_events {
        readers.spawn(
            "fan events",
            &failed,
            fan_events.clone().run(readers.stop.clone()),
        );
    }
    if let Some(api_events) = &parts.api_events {
        readers.spawn(
            "API events",
            &failed,
            api_events.clone().run(readers.stop.clone()),
        );
    }
    Ok(Gateway {
        app,
        drain: config.drain,
        publisher: parts.publisher,
        fan_events: parts.fan_events,
        api_events: parts.api_events,
        addr: config.listen,
        admin_addr: None,
        intake,
        readers,
        flusher,
        lease,
        sockets,
        failed,
    })
}

/// Listens with room for a herd in the kernel's backlog: when the backlog is full, clients try again
/// only after 1 s or 3 s. Returns the address too, with the real port instead of port 0.
fn listen(addr: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    bind(addr).map_err(|why| StartError::Address(addr, why))
}

fn bind(addr: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A gateway that restarts can bind its address at once.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    let listener = socket.listen(BACKLOG)?;
    let addr = listener.local_addr()?;
    Ok((listener, addr))
}

/// Binds a socket for each core to the address for datagrams. Returns the address too, with the real
/// port instead of port 0.
fn bind_datagrams(addr: SocketAddr) -> Result<(Vec<DatagramSocket>, SocketAddr), StartError> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    datagrams::bind(addr, cores).map_err(|why| StartError::Address(addr, why))
}

async fn open_store(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn Store>, ConnectError> {
    let Some(url) = &config.redis else {
        return Ok(Arc::new(MemoryStore::new(Clock::start())));
    };
    let deadline = tokio::time::Instant::now() + config.wait_for_store;
    loop {
        let access = Access {
            url: url.clone(),
            prefix: config.key_prefix.clone(),
            ca: config.redis_ca.clone(),
        };
        match open_and_try(access, metrics).await {
            Ok(store) => return Ok(Arc::new(store)),
            Err(why) if why.may_pass() && tokio::time::Instant::now() < deadline => {
                tracing::info!(error = %why, "the store is not there yet; waiting");
            }
            Err(why) => return Err(why),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Connects to Redis, and tries out whether a gateway can work with it. The problems that a gateway
/// can live with go into the log.
async fn open_and_try(access: Access, metrics: &Arc<Metrics>) -> Result<RedisStore, ConnectError> {
    let store = RedisStore::open(access, metrics.clone()).await?;
    let found = store.try_out().await?;
    for warning in &found.warnings {
        tracing::warn!("{warning}");
    }
    for refusal in &found.refusals {
        tracing::warn!("{refusal}");
    }
    for away in &found.away {
        tracing::info!("a master was not tried out: {away}");
    }
    Ok(store)
}

fn webhook_sender(
    config: &Config,
    endpoint: &Arc<Endpoint>,
    kind: QueueKind,
    app: &AppState,
) -> WebhookSender {
    WebhookSender {
        store: app.store.clone(),
        gateways: app.gateways.clone(),
        endpoint: endpoint.clone(),
        kind,
        patience: config.webhook_patience,
        kept: config.events_kept,
        metrics: app.metrics.clone(),
        clock: app.clock,
    }
}

/// Fixes the form in which the store keeps the ids of users seen.
///
/// # Errors
/// The store already has another form.
async fn fix_seen_ids(config: &Config, store: &dyn Store) -> Result<(), StartError> {
    let wanted = config.last_seen_ids;
    let fixed = match store.fix_seen_ids(wanted).await {
        Ok(fixed) if fixed == wanted => return Ok(()),
        Ok(fixed) => fixed,
        Err(why) => {
            // The walk tries again.
            tracing::warn!(error = %why, "could not look how the store keeps the ids of users seen");
            return Ok(());
        }
    };
    let fixed = fixed.as_str();
    let wanted = wanted.as_str();
    Err(StartError::Settings(format!(
        "this Redis was first used with last-seen-ids {fixed}, which cannot be changed to {wanted} while it has data: \
         use last-seen-ids {fixed}, or forget all users seen and delete the key {prefix}rollcall:last-seen-ids",
        prefix = config.key_prefix
    )))
}

/// Fixes the form in which the store keeps attendance.
///
/// # Errors
/// The store already has another form.
async fn fix_attendance_form(config: &Config, store: &dyn Store) -> Result<(), StartError> {
    let wanted = config.attendance;
    let fixed = match store.fix_attendance_form(wanted).await {
        Ok(fixed) if fixed == wanted => return Ok(()),
        Ok(fixed) => fixed,
        Err(why) => {
            // The walk tries again.
            tracing::warn!(error = %why, "could not look how the store keeps attendance");
            return Ok(());
        }
    };
    let fixed = fixed.as_str();
    let wanted = wanted.as_str();
    Err(StartError::Settings(format!(
        "this Redis was first used with attendance {fixed}, which cannot be changed to {wanted} while it has data: \
         use attendance {fixed}, or delete what is kept of attendance and the key {prefix}rollcall:attendance-form",
        prefix = config.key_prefix
    )))
}

impl Gateway {
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
        self.app.gateways.id()
    }

    /// Reads keys, secrets and certificates again, as SIGHUP does. A part whose files are bad keeps
    /// what it has, and the log says so.
    pub async fn reload(&self) {
        // The problems are in the log.
        let _ = self.app.reloader.reload().await;
    }

    /// Opens a live, or finds it open, as the HTTP API does.
    pub async fn open_live(&self, wish: OpenRequest) -> Result<Opened, LiveError> {
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
        Some(self.app.rooms.get(live)?.figures())
    }

    /// How far to trust these counts.
    pub fn quality(&self, live: &LiveId) -> Option<Quality> {
        let room = self.app.rooms.get(live)?;
        Some(self.app.sessions.trust.quality(&room))
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

    /// Where this gateway takes datagrams, for calls within this process.
    pub fn datagram_door(&self) -> DatagramDoor {
        DatagramDoor::new(Arc::new(datagrams::Shared::new(self.app.clone())))
    }

    /// Listens until the intake stops.
    fn serve_ports(
        &self,
        config: &Config,
        certificate: Option<Arc<Certificate>>,
        public: TcpListener,
        admin: Option<TcpListener>,
    ) {
        let settings = PortSettings {
            pending: self.app.admission.limits.pending,
            per_address: PerAddress::Share,
            handshake_timeout: config.handshake_timeout,
            timeout: config.timeout,
            certificate,
            proxy_protocol: config.proxy_protocol,
            trusted_proxies: TrustedProxies::new(&config.trusted_proxies),
            metrics: self.app.metrics.clone(),
        };
        let admin_settings = PortSettings {
            // Back ends keep many connections open.
            per_address: PerAddress::Unlimited,
            certificate: None,
            proxy_protocol: false,
            ..settings.clone()
        };
        let public_routes = http::routes::public(&self.app, admin.is_some());
        self.serve_port("listener", settings, public, public_routes);
        if let Some(admin) = admin {
            let admin_routes = http::routes::admin(&self.app);
            self.serve_port("admin listener", admin_settings, admin, admin_routes);
        }
    }

    fn serve_port(
        &self,
        task: &'static str,
        settings: PortSettings,
        listener: TcpListener,
        routes: Router,
    ) {
        let stop = self.intake.stop.clone();
        let serving = listener::serve(settings, listener, routes, stop, self.sockets.clone());
        self.intake.spawn(task, &self.failed, serving);
    }

    /// Takes in datagrams until the intake stops.
    fn serve_datagrams(&self, sockets: Vec<DatagramSocket>) {
        let shared = Arc::new(datagrams::Shared::new(self.app.clone()));
        let resumptions = Resumptions::new(shared.clone(), self.sockets.clone());
        for socket in sockets {
            let stop = self.intake.stop.clone();
            let serving = datagrams::serve(socket, shared.clone(), resumptions.clone(), stop);
            self.intake.spawn("datagrams", &self.failed, serving);
        }
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
        let stages = Stages::of(self.drain);
        self.app.sessions.drain();
        self.app.metrics.draining.set(1);
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
        self.app.rooms.want_nobody(self.app.clock.now());
        self.flusher.end(stages.last_flush).await;
        self.lease.abort();
        let goodbye = async {
            if let Some(fan_events) = &self.fan_events {
                // The fans whom the last flush took out.
                fan_events.write().await;
            }
            if let Some(api_events) = &self.api_events {
                api_events.write().await;
            }
            self.publisher.say_goodbye().await;
            self.app.store.end_lease(&self.app.gateways.id()).await
        };
        if !matches!(
            tokio::time::timeout(stages.goodbye, goodbye).await,
            Ok(Ok(()))
        ) {
            tracing::warn!(
                "could not say goodbye; the other gateways learn of this stop when the lease expires"
            );
        }
        tracing::info!(gateway_id = %self.app.gateways.id(), "gateway stopped");
        *self.failed.borrow()
    }
}

#[cfg(test)]
mod tests;
