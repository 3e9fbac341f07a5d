//! Owns an HTTP service of a story on a free port.

use std::net::SocketAddr;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// A service that runs. It is away when dropped, and so are its connections.
#[derive(Debug)]
pub struct Service {
    /// Where it listens.
    pub addr: SocketAddr,
    server: JoinHandle<()>,
}

impl Service {
    /// On a free port.
    pub async fn start(router: Router) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), router).await
    }

    /// At this address, which is free.
    pub async fn start_at(addr: SocketAddr, router: Router) -> Self {
        let listener = TcpListener::bind(addr).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            // They end with the task.
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let service = TowerToHyperService::new(router.clone());
                let io = TokioIo::new(socket);
                connections.spawn(http1::Builder::new().serve_connection(io, service));
            }
        });
        Self { addr, server }
    }

    /// Ends it; its address is free again.
    pub async fn stop(mut self) {
        self.server.abort();
        let _ = (&mut self.server).await;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.abort();
    }
}
