//! The loop of one socket: receives a batch of datagrams, has each of them answered, waits for
//! more. There is no task for a session, and no allocation for a datagram that is a beat.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::features::datagrams::responder::{DatagramReply, Responder, Shared};
use crate::features::datagrams::resumptions::{Resumptions, resume};
use crate::features::datagrams::socket::{DatagramBatch, DatagramSocket, Origin};
use crate::features::datagrams::wire::SHORT;
use crate::features::wired::Handlers;

/// How long the loop waits after the kernel failed to hand out datagrams.
const PAUSE: Duration = Duration::from_millis(75);

/// Serves a socket until `stop`.
pub(crate) async fn serve(
    socket: DatagramSocket,
    shared: Arc<Shared>,
    resumptions: Resumptions,
    stop: CancellationToken,
) {
    let socket = Arc::new(socket);
    let mut responder = Responder::new(shared.clone());
    let mut batch = DatagramBatch::new();
    loop {
        let received = tokio::select! {
            () = stop.cancelled() => return,
            received = receive(&socket, &mut batch) => received,
        };
        if let Err(error) = received {
            tracing::warn!(%error, "cannot receive datagrams; still trying");
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let now = shared.app.core.clock.now();
        for (datagram, origin) in batch.datagrams() {
            match responder.take(datagram, origin.from, now) {
                DatagramReply::Nothing => {}
                DatagramReply::Answer(answer) => shared.send(&socket, &answer, origin),
                DatagramReply::Resume(resumption) => {
                    resumptions.begin(*resumption, &socket, origin)
                }
            }
        }
    }
}

/// Waits until there are datagrams. Other tasks get a turn between two batches.
async fn receive(socket: &DatagramSocket, batch: &mut DatagramBatch) -> io::Result<()> {
    loop {
        socket.ready().await?;
        match socket.receive(batch) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            received => return received,
        }
    }
}

/// Takes in datagrams of callers within this process, as one of the sockets does.
pub struct DatagramDoor(Mutex<Responder>, Arc<Shared>);

impl DatagramDoor {
    /// Where a gateway takes datagrams, for calls within this process.
    pub fn of(gateway: Handlers) -> Self {
        let shared = Arc::new(Shared::new(gateway.0));
        Self(Mutex::new(Responder::new(shared.clone())), shared)
    }

    /// Takes in a datagram. Returns its answer, if there is one.
    pub async fn take(&self, datagram: &[u8], from: SocketAddr) -> Option<[u8; SHORT]> {
        let now = self.1.app.core.clock.now();
        let reply = self.0.lock().take(datagram, from, now);
        match reply {
            DatagramReply::Nothing => None,
            DatagramReply::Answer(answer) => Some(answer),
            DatagramReply::Resume(resumption) => {
                let origin = Origin { from, to: None };
                resume(&self.1, *resumption, origin).await
            }
        }
    }
}

impl Shared {
    /// Sends an answer. One that the kernel does not take is lost, as others are on the way.
    pub(crate) fn send(&self, socket: &DatagramSocket, answer: &[u8], origin: Origin) {
        if socket.send(answer, origin).is_err() {
            self.app.core.metrics.datagrams_unsent.inc();
        }
    }
}
