//! Heartbeats by datagram (`--udp`), for sessions without a socket. `docs/datagrams.md` has the
//! format, and says what a client does.
//!
//! [`wire`] reads and writes datagrams, [`responder`] decides what becomes of each, and [`server`]
//! receives and sends. What a session must remember lies in
//! [`datagram_state`](crate::session::socketless::datagram_state).

mod addresses;
mod advertised;
mod cookies;
mod recent;
mod refusals;
mod responder;
mod resumptions;
mod server;
mod socket;
mod strangers;
mod tallies;
#[cfg(test)]
mod tests;
pub mod wire;

use std::num::NonZero;
use std::sync::Arc;

use self::advertised::advertised;
use self::responder::Shared;
use self::resumptions::Resumptions;
pub use self::server::DatagramDoor;
use self::server::serve;
use self::socket::{DatagramSocket, bind};
use super::wired::{SetupError, Wired, named};
use crate::config::Config;

/// The sockets for datagrams; the default is none.
#[derive(Default)]
pub(crate) struct Sockets(Vec<DatagramSocket>);

impl Sockets {
    /// Binds a socket for each core to the address of the settings. Then these have the real port
    /// instead of port 0, because clients are told the address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub(crate) fn bind(config: &mut Config) -> Result<Self, SetupError> {
        let Some(wanted) = config.udp else {
            return Ok(Self::default());
        };
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let (sockets, bound) =
            bind(wanted, cores).map_err(|why| SetupError::Address(wanted, why))?;
        config.udp = Some(bound);
        Ok(Self(sockets))
    }
}

pub(crate) fn feature(Sockets(sockets): Sockets) -> Wired {
    Wired::joins(move |host, added| {
        let config = &host.core.config;
        added.udp_addresses = advertised(config);
        if sockets.is_empty() {
            return Ok(());
        }
        if let Some(udp) = config.udp {
            tracing::info!(%udp, sockets = sockets.len(), "taking heartbeats by datagram");
        }
        added.intake(|app, tracker| {
            let shared = Arc::new(Shared::new(app.clone()));
            let resumptions = Resumptions::new(shared.clone(), tracker.clone());
            let mut tasks = Vec::new();
            for socket in sockets {
                let shared = shared.clone();
                let resumptions = resumptions.clone();
                tasks.push(named("datagrams", |stop| {
                    serve(socket, shared, resumptions, stop)
                }));
            }
            tasks
        });
        Ok(())
    })
}
