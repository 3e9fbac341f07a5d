//! Sessions without a socket: a client joins by an HTTP request, and stays by beats, which are HTTP
//! requests, datagrams, or an open stream of events.
//!
//! Such a session has the memberships, the seat and the [`Conn`] of any other. What it lacks is a
//! task: its client's requests and one task of the gateway ([`attendant`]) do what the task of a
//! socket does. When a signal is set, the session puts itself into that task's queue.
//!
//! Any gateway can go on with a session that another one began ([`sessions`]): its id says all
//! that a join needs. Both then hold a seat for the user, whom the store counts once. The former
//! gateway gives up its seat when it has heard no beat for the timeout.

pub(crate) mod attendant;
pub mod datagram_state;
pub(crate) mod events;
pub(crate) mod sessions;
pub(crate) mod shared_secret;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Wake, Waker};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::close_codes::Close;
use super::memberships::Memberships;
use crate::base::clock::UnixMillis;
use crate::base::keyed_permits::KeyedPermit;
use crate::base::session_key::SessionKey;
use crate::presence::Fan;
use crate::presence::conn::{Conn, SeatWay, Signals};
use crate::presence::figures::Figures;
use crate::presence::queue::Queue;
use crate::store::Over;
use datagram_state::DatagramState;

/// How a client says that it is there, as the label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Http,
    Datagram,
    /// An open stream of events.
    Stream,
}

impl Way {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Datagram => "datagram",
            Self::Stream => "stream",
        }
    }

    /// The same for the seat of the client.
    fn seat_way(self) -> SeatWay {
        match self {
            Self::Http | Self::Stream => SeatWay::Http,
            Self::Datagram => SeatWay::Datagram,
        }
    }
}

/// What a client learns of its live with an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BeatAnswer {
    pub(crate) figures: Figures,
    /// Whether the user is a fan, as far as is known.
    pub(crate) fan: Fan,
    /// The version of what the back end wrote about the live; 0 if it wrote nothing.
    pub(crate) info_version: u64,
}

/// Why a session ended on this gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionEnd {
    /// Its client left.
    Left,
    LiveClosed,
    /// It goes on elsewhere: the gateway stops, or the session switched to another live there.
    Moved,
    /// As a socket would have been closed.
    Closed(Close),
}

impl SessionEnd {
    fn as_close(self) -> Close {
        match self {
            Self::Left | Self::LiveClosed => Close::ByClient,
            Self::Moved => Close::Drain,
            Self::Closed(why) => why,
        }
    }

    /// The label of a metric.
    fn label(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::LiveClosed => "live_closed",
            Self::Moved => "moved",
            Self::Closed(why) => why.label(),
        }
    }

    /// Why the id that the session has here is over on all gateways; `None` if it may be good on
    /// others.
    fn over(self) -> Option<Over> {
        match self {
            Self::Left | Self::Closed(Close::Expired) => Some(Over::Left),
            Self::Closed(Close::Removed) => Some(Over::Removed),
            Self::Closed(Close::TooManySockets) => Some(Over::CrowdedOut),
            Self::LiveClosed | Self::Moved | Self::Closed(_) => None,
        }
    }
}

/// A session without a socket, on this gateway.
///
/// Until it listens to signals, a drop ends it; from then on its waker keeps it, and only an end
/// lets it go.
pub(crate) struct SocketlessSession {
    pub(crate) key: SessionKey,
    pub(crate) conn: Arc<Conn>,
    /// When it began, here or on another gateway.
    began: UnixMillis,
    /// `None` once the session has ended.
    memberships: Mutex<Option<Memberships>>,
    /// Wakes the stream of events, if one is open.
    stream: ArcSwapOption<Notify>,
    /// The number of the id of the live that the session is in.
    number: AtomicU32,
    /// Whether the client asked for its friends in the live. Only a stream is pushed them.
    friends: AtomicBool,
    /// Whether the stream is yet to send the counts of this moment.
    greets: AtomicBool,
    told_to_move: AtomicBool,
    /// The sessions whose signals the attendant is to serve.
    signalled: Arc<Queue<Arc<Self>>>,
    /// The state of its datagrams.
    pub(crate) datagrams: Mutex<DatagramState>,
    /// The permit of the client's address; given back when the session is dropped.
    _permit: Option<KeyedPermit>,
}

/// The only thing that wakes a session is a signal. The waker may be called under any lock, so it
/// takes none but that of the queue.
impl Wake for SocketlessSession {
    fn wake(self: Arc<Self>) {
        self.wake_stream();
        self.signalled.clone().push(self);
    }
}

impl SocketlessSession {
    fn new(
        key: SessionKey,
        number: u32,
        began: UnixMillis,
        memberships: Memberships,
        signalled: Arc<Queue<Arc<Self>>>,
        permit: Option<KeyedPermit>,
    ) -> Arc<Self> {
        Arc::new(Self {
            key,
            conn: memberships.conn.clone(),
            began,
            memberships: Mutex::new(Some(memberships)),
            stream: ArcSwapOption::empty(),
            number: AtomicU32::new(number),
            friends: AtomicBool::new(false),
            greets: AtomicBool::new(false),
            told_to_move: AtomicBool::new(false),
            signalled,
            datagrams: Mutex::default(),
            _permit: permit,
        })
    }

    /// Asks for a wake at the next signal. Signals that are set already do not wake: the caller
    /// takes them afterwards.
    fn listen(self: &Arc<Self>) {
        self.conn.register(&Waker::from(self.clone()));
        if !self.is_open() {
            // It ended meanwhile, and its waker must not keep it.
            self.conn.forget_waker();
        }
    }

    fn has_stream(&self) -> bool {
        self.stream.load().is_some()
    }

    fn wake_stream(&self) {
        if let Some(stream) = self.stream.load_full() {
            stream.notify_one();
        }
    }

    fn asks_friends(&self) -> bool {
        self.friends.load(Ordering::Relaxed)
    }

    /// Grows with each switch to another live.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Acquire)
    }

    /// Notes that the client was told to go on with the session on another gateway. False if it was
    /// told before.
    fn note_told_to_move(&self) -> bool {
        !self.told_to_move.swap(true, Ordering::AcqRel)
    }

    /// Whether the client was told to go on with the session on another gateway.
    pub(crate) fn was_told_to_move(&self) -> bool {
        self.told_to_move.load(Ordering::Acquire)
    }

    /// Whether the session goes on.
    pub(crate) fn is_open(&self) -> bool {
        self.memberships.lock().is_some()
    }

    /// The text that acknowledges a heartbeat; `None` if the session has ended, or its live has.
    pub(crate) fn ack(&self) -> Option<Utf8Bytes> {
        let mut memberships = self.memberships.lock();
        let memberships = memberships.as_mut()?;
        if memberships.seat_has_ended() {
            return None;
        }
        Some(memberships.ack(None))
    }

    /// The figures of the joined live; `None` if the session has ended, or its live has.
    pub(crate) fn standing(&self) -> Option<BeatAnswer> {
        let mut memberships = self.memberships.lock();
        let memberships = memberships.as_mut()?;
        let figures = memberships.figures()?;
        let seat = memberships.seat()?;
        if seat.room.end().is_some() {
            return None;
        }
        Some(BeatAnswer {
            figures,
            fan: seat.member.fan(),
            info_version: seat.room.info.version(),
        })
    }

    /// Ends the session: its user leaves the live. False if it had ended before.
    fn end(&self, why: SessionEnd) -> bool {
        let Some(mut memberships) = self.memberships.lock().take() else {
            return false;
        };
        memberships.ended = Some(why.as_close());
        drop(memberships);
        // The waker holds the session, which holds the waker.
        self.conn.forget_waker();
        self.wake_stream();
        true
    }

    /// Takes the signals of `which` that are set.
    fn take_signals(self: &Arc<Self>, which: Signals) -> Signals {
        self.listen();
        self.conn.take(which)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use super::*;

    #[test]
    fn a_session_is_small() {
        assert_eq!(size_of::<SocketlessSession>(), 176);
    }
}
