//! Goes on with sessions that other gateways have or had, for clients that said hello here. Each
//! runs in a task of its own, because the live may have to be read from the store. Their number is
//! bounded: a client that finds no place is challenged again at its next beat.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use crate::base::address_prefix::AddressPrefix;
use crate::base::ids::{Epoch, LiveId};
use crate::base::metrics::Metrics;
use crate::edge::client_address::ClientAddress;
use crate::features::datagrams::responder::{Resumption, Shared};
use crate::features::datagrams::socket::{DatagramSocket, Origin};
use crate::features::datagrams::wire::{DatagramAck, DatagramKey, DatagramStatus, SHORT};
use crate::session::socketless::Way;
use crate::session::socketless::datagram_state::Arrival;
use crate::session::socketless::sessions::Denied;
use crate::sync::lives::LiveError;

/// How many run at a time, for all sockets.
const MOST: usize = 4_096;

#[derive(Clone)]
pub(crate) struct Resumptions {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Resumptions {
    /// `tasks` tracks the tasks that must end before the process does.
    pub(crate) fn new(shared: Arc<Shared>, tasks: TaskTracker) -> Self {
        Self {
            shared,
            places: Arc::new(Semaphore::new(MOST)),
            tasks,
        }
    }

    /// Begins to go on with a session, and answers its client when that is done.
    pub(crate) fn begin(
        &self,
        resumption: Resumption,
        socket: &Arc<DatagramSocket>,
        origin: Origin,
    ) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            Metrics::count(&self.shared.app.core.metrics.limited, "resumptions");
            return;
        };
        let shared = self.shared.clone();
        let socket = socket.clone();
        self.tasks
            .spawn(run(shared, resumption, socket, origin, place));
    }
}

async fn run(
    shared: Arc<Shared>,
    resumption: Resumption,
    socket: Arc<DatagramSocket>,
    origin: Origin,
    _place: OwnedSemaphorePermit,
) {
    if let Some(answer) = resume(&shared, resumption, origin).await {
        shared.send(&socket, &answer, origin);
    }
}

/// Goes on with a session. Returns the answer to its client; `None` if it had better try again.
pub(crate) async fn resume(
    shared: &Shared,
    resumption: Resumption,
    origin: Origin,
) -> Option<[u8; SHORT]> {
    let key = DatagramKey::new(&resumption.key);
    let session = resumption.claims.key;
    let ticket = resumption.ticket;
    let ack = go_on(shared, resumption, origin).await?;
    if !matches!(ack.status, DatagramStatus::Here | DatagramStatus::Move) {
        let now = shared.app.core.clock.now();
        shared
            .refusals
            .note(&session, ticket, origin.from, ack.status, now);
    }
    Some(ack.seal(&key))
}

async fn go_on(shared: &Shared, resumption: Resumption, origin: Origin) -> Option<DatagramAck> {
    let Resumption {
        claims,
        key,
        opening,
        ..
    } = resumption;
    let app = &shared.app;
    let counter = opening.counter;
    let address = ClientAddress::Peer(origin.from.ip().to_canonical());
    let Ok(permit) = app.admission.addresses.admit(address) else {
        // Over HTTP, the client learns why.
        return Some(shared.farewell(DatagramStatus::Over, counter));
    };
    let live = claims.live.clone();
    let epoch = claims.epoch;
    let network = AddressPrefix::of(address.address());
    match app.presences.find_or_resume(claims, permit, network).await {
        Ok(session) => {
            let now = app.core.clock.now();
            if session.datagrams.lock().open(key, &opening, now) != Arrival::Fresh {
                return None;
            }
            app.presences.beat(&session, Way::Datagram);
            Some(shared.ack(&session, counter))
        }
        Err(Denied::Unknown) => {
            let status = if has_closed(shared, &live, epoch).await {
                DatagramStatus::Closed
            } else {
                DatagramStatus::Over
            };
            Some(shared.farewell(status, counter))
        }
        Err(Denied::Over(why)) => Some(shared.farewell(why.into(), counter)),
        Err(Denied::Draining | Denied::Full) => {
            Some(shared.farewell(DatagramStatus::Move, counter))
        }
        Err(Denied::Refused(_)) => None,
    }
}

/// Whether this epoch of a live is over. The gateway remembers for a while which lives are not open,
/// so a million viewers of a live that was closed do not ask the store a million times.
async fn has_closed(shared: &Shared, live: &LiveId, epoch: Epoch) -> bool {
    match shared.app.lives.find(live).await {
        Ok(room) => room.record.epoch != epoch,
        Err(LiveError::NotOpen(_)) => true,
        Err(_) => false,
    }
}
