//! The ports of a gateway: for clients and for back ends. Features open their own.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket};
use tokio_util::task::TaskTracker;

use super::stages::StopStage;
use super::start_error::StartError;
use crate::config::Config;
use crate::edge::client_address::TrustedProxies;
use crate::edge::http;
use crate::edge::http::state::AppState;
use crate::edge::listener::pending_connections::PerAddress;
use crate::edge::listener::tls::Certificate;
use crate::edge::listener::{self, PortSettings};

/// Connections that the kernel accepts ahead of the listener. `net.core.somaxconn` (4096) also
/// bounds them.
const BACKLOG: u32 = 16_384;

/// The sockets of a gateway, bound to their addresses.
pub(super) struct Ports {
    public: TcpListener,
    admin: Option<TcpListener>,
    pub(super) addr: SocketAddr,
    pub(super) admin_addr: Option<SocketAddr>,
}

impl Ports {
    /// Binds the addresses of the settings.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub(super) fn bind(config: &Config) -> Result<Self, StartError> {
        let (public, addr) = listen(config.listen)?;
        let admin = config.admin_listen.map(listen).transpose()?;
        let (admin, admin_addr) = admin.unzip();
        Ok(Self {
            public,
            admin,
            addr,
            admin_addr,
        })
    }

    /// Listens until the intake stops. `tracker` tracks the tasks of sockets.
    pub(super) fn serve(
        self,
        app: &Arc<AppState>,
        certificate: Option<Arc<Certificate>>,
        intake: &StopStage,
        tracker: &TaskTracker,
    ) {
        let config = &app.core.config;
        let settings = PortSettings {
            pending: app.admission.limits.pending,
            per_address: PerAddress::Share,
            handshake_timeout: config.handshake_timeout,
            timeout: config.timeout,
            certificate,
            proxy_protocol: config.proxy_protocol,
            trusted_proxies: TrustedProxies::new(&config.trusted_proxies),
            metrics: app.core.metrics.clone(),
        };
        let admin_settings = PortSettings {
            // Back ends keep many connections open.
            per_address: PerAddress::Unlimited,
            certificate: None,
            proxy_protocol: false,
            ..settings.clone()
        };
        let routes = http::routes::public(app, self.admin.is_some());
        intake.run("listener", |stop| {
            listener::serve(settings, self.public, routes, stop, tracker.clone())
        });
        if let Some(admin) = self.admin {
            let routes = http::routes::admin(app);
            intake.run("admin listener", |stop| {
                listener::serve(admin_settings, admin, routes, stop, tracker.clone())
            });
        }
    }
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
