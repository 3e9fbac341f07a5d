//! Owns the wiring of a gateway. A stand-in for now: it binds its address and does nothing more.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::config::Config;

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be had.
    #[error("cannot listen on {0}: {1}")]
    Address(SocketAddr, #[source] io::Error),
    /// The store cannot be reached.
    #[error("the store cannot be reached: {0}")]
    Store(String),
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    addr: SocketAddr,
    _listener: TcpListener,
}

/// Starts a gateway.
pub async fn start(config: Config) -> Result<Gateway, StartError> {
    let refused = |err| StartError::Address(config.listen, err);
    let listener = TcpListener::bind(config.listen).await.map_err(refused)?;
    Ok(Gateway { addr: listener.local_addr().map_err(refused)?, _listener: listener })
}

impl Gateway {
    /// The public address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The internal address, where there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        None
    }

    /// Waits until a long-lived task ends early, and names it.
    pub async fn failed(&self) -> String {
        std::future::pending().await
    }

    /// Ends in flow order.
    pub async fn stop(self) {}
}
