//! The connections of one port that are not WebSockets: in their handshake, or plain HTTP. Their
//! number is bounded, and so is the share of one address, so that no address can keep the others
//! out.
//!
//! An address that has its share gives up one of its own connections for each new one. At the bound
//! of the whole port, the listener closes a connection of the address that holds most, however
//! lately it was answered. Only if all addresses hold about as many does it matter how long a
//! connection has waited. The listener then closes connections whose last request was answered
//! first, and after them connections that sent no whole request for a second. If there is none, the
//! accept loop waits, and new connections stay in the kernel's backlog.

mod table;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::table::Holder;
use self::table::{ConnectionStage, ConnectionTable, RETRY_DELAY};
use crate::base::metrics::Metrics;

/// One address may hold one in this many slots.
const SHARE: usize = 8;

/// Slots are scarce while fewer than one in this many is free.
const SCARCE: usize = 4;

/// How many connections one address may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PerAddress {
    /// An eighth of the slots.
    Share,
    /// All of them.
    Unlimited,
}

/// The address holds as many connections as it may, and is about to send a request on each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManyConnections;

#[derive(Debug)]
pub(super) struct PendingConnections {
    slots: Arc<Semaphore>,
    most: usize,
    per_network: usize,
    table: Mutex<ConnectionTable>,
    metrics: Arc<Metrics>,
}

/// One connection; its drop frees the slot.
#[derive(Debug)]
pub(crate) struct PendingConnection {
    all: Arc<PendingConnections>,
    number: u64,
    slot: Mutex<Option<OwnedSemaphorePermit>>,
    evicted: CancellationToken,
}

impl PendingConnections {
    pub(super) fn new(most: usize, per_address: PerAddress, metrics: Arc<Metrics>) -> Arc<Self> {
        let per_network = match per_address {
            PerAddress::Share => (most / SHARE).max(1),
            PerAddress::Unlimited => usize::MAX,
        };
        let slots = Arc::new(Semaphore::new(most));
        Arc::new(Self {
            slots,
            most,
            per_network,
            table: Mutex::default(),
            metrics,
        })
    }

    /// Waits for a slot, and frees one if there is a connection to close.
    pub(super) async fn admit(
        self: &Arc<Self>,
        holder: Holder,
    ) -> Result<Arc<PendingConnection>, TooManyConnections> {
        self.make_room_for(holder, &mut self.table.lock())?;
        let slot = loop {
            match self.slots.clone().try_acquire_owned() {
                Ok(slot) => break slot,
                // The semaphore is never closed.
                Err(_) => {
                    let wait = self.evict_one(holder, Instant::now());
                    let _ = tokio::time::timeout(wait, self.slots.acquire()).await;
                }
            }
        };
        self.metrics.connections.inc();
        let evicted = CancellationToken::new();
        let number = self
            .table
            .lock()
            .add(holder, Instant::now(), evicted.clone());
        Ok(Arc::new(PendingConnection {
            all: self.clone(),
            number,
            slot: Mutex::new(Some(slot)),
            evicted,
        }))
    }

    /// Closes a connection of a holder that has its share.
    fn make_room_for(
        &self,
        holder: Holder,
        table: &mut ConnectionTable,
    ) -> Result<(), TooManyConnections> {
        if holder == Holder::Unbounded || table.held_by(holder) < self.per_network {
            return Ok(());
        }
        self.metrics.connections_dropped.inc();
        match table.idlest_of(holder, Instant::now()) {
            Some(number) => {
                table.evict(number);
                Ok(())
            }
            None => Err(TooManyConnections),
        }
    }

    /// Closes a connection to make room for one of `newcomer`; returns how long to wait until a slot
    /// may be free.
    fn evict_one(&self, newcomer: Holder, now: Instant) -> Duration {
        let mut table = self.table.lock();
        match table.victim(newcomer, now) {
            Ok(number) => {
                table.evict(number);
                self.metrics.connections_dropped.inc();
                RETRY_DELAY
            }
            Err(wait) => wait,
        }
    }
}

impl PendingConnection {
    /// Counts the connection to this holder from now on.
    pub(super) fn belongs_to(&self, holder: Holder) -> Result<(), TooManyConnections> {
        let mut table = self.all.table.lock();
        // An evicted connection is no longer in the table, and is about to end.
        if let Some(now) = table.holder_of(self.number)
            && now != holder
        {
            self.all.make_room_for(holder, &mut table)?;
            table.give_to(self.number, holder);
        }
        Ok(())
    }

    /// Notes that a request has begun; its body is yet to come.
    pub(super) fn begun(&self) {
        self.all
            .table
            .lock()
            .note(self.number, ConnectionStage::Begun(Instant::now()));
    }

    /// Notes that a request is complete, with its body. The gateway answers it next.
    pub(super) fn busy(&self) {
        self.all
            .table
            .lock()
            .note(self.number, ConnectionStage::Busy);
    }

    /// Notes that the request is answered.
    pub(super) fn answered(&self) {
        self.all
            .table
            .lock()
            .note(self.number, ConnectionStage::Answered(Instant::now()));
    }

    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Whether so few slots are free that a connection should not be kept for another request.
    pub(super) fn is_scarce(&self) -> bool {
        self.all.slots.available_permits() < self.all.most / SCARCE
    }

    /// Frees the slot of a connection that becomes a WebSocket.
    pub(crate) fn becomes_socket(&self) {
        if self.slot.lock().take().is_some() {
            self.all.table.lock().remove(self.number);
            self.all.metrics.connections.dec();
        }
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.becomes_socket();
    }
}

#[cfg(test)]
mod tests;
