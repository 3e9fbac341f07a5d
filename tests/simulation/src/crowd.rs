//! The people who use the gateways, and their devices: one crowd for the simulator and for the load
//! tools. What a person wants is in [`person`]; what the protocol makes of it is in [`socket`] and
//! [`session`]; what people know to be true afterwards is in [`truth`].
//!
//! Nothing here opens a connection: the [`Surroundings`] of a crowd do. They are the simulated
//! network of this package, or the real gateways of `loadtest`.

pub mod datagrams;
pub mod device;
pub mod person;
pub mod session;
pub mod socket;
pub mod truth;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use xxhash_rust::xxh3::xxh3_64;

use self::session::OldId;
use self::truth::CrowdState;
use crate::expectation::{Live, SocketAt, User};

/// What people do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They come, go, swipe, vanish and reconnect.
    Wander,
    /// They finish what they have begun, and stay.
    Rest,
    /// They leave, and do not come back.
    GoHome,
}

/// An event that many people react to at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrowdEvent {
    /// Each third person, counted from this one, vanishes for this long.
    Vanish(u32, Duration),
    /// Every connection to this gateway is cut; its users reconnect at once.
    Storm(usize),
}

/// What one device of a person is like.
#[derive(Debug, Clone, Copy, Default)]
pub struct Habits {
    /// It opens a WebSocket; otherwise it joins over HTTP and sends beats.
    pub has_socket: bool,
    /// It goes on where it is when a gateway tells it to connect elsewhere.
    pub ignores_reconnects: bool,
    /// Without a socket: it sends most of its beats by datagram.
    pub sends_datagrams: bool,
    /// Without a socket: it sends its requests to one gateway as long as that takes them, as over a
    /// connection that is kept open. Otherwise a balancer sends each to any gateway.
    pub keeps_connection: bool,
    /// Without a socket: it sends its next beat early when a gateway says that it is about to stop.
    pub moves_at_once: bool,
    /// Without a socket: it sometimes sends no beat for a while, and goes on with the same session.
    pub falls_silent: bool,
}

/// An answer to an HTTP request.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Null if it is no JSON.
    pub body: Value,
    /// Whether the connection ends with it: the gateway is about to stop.
    pub closes: bool,
}

/// What became of an HTTP request.
#[derive(Debug)]
pub enum Outcome {
    /// Nobody listens.
    Nobody,
    /// It may be carried out, now or later.
    Unanswered,
    /// A gateway has answered.
    Answered(Answer),
}

/// Why a socket was not opened.
#[derive(Debug, Clone, Copy)]
pub enum CrowdRefusal {
    /// Nobody listens, so nobody has read the request.
    Nobody,
    /// The gateway refused, perhaps with a time after which to come back, or did not answer. It may
    /// read the request later.
    Perhaps(Option<Duration>),
}

/// The gateways around a crowd, and what those who run the crowd check when a device is told
/// something.
pub trait Surroundings: Send + Sync + 'static {
    /// What a WebSocket runs over.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// What all people share.
    fn crowd(&self) -> &CrowdState;

    /// The id of a live.
    fn name_of_live(&self, live: Live) -> String;

    /// The id of a user.
    fn name_of_user(&self, user: User) -> String;

    /// What a person's device with this number is like.
    fn habits(&self, user: User, device: usize) -> Habits;

    /// Opens a socket; its upgrade may ask to join a live.
    fn connect(
        &self,
        gateway: usize,
        user: User,
        join: Option<Live>,
    ) -> impl Future<Output = Result<WebSocketStream<Self::Stream>, CrowdRefusal>> + Send;

    /// Sends an HTTP request. A body of null is none.
    fn ask(
        &self,
        gateway: usize,
        method: Method,
        path: &str,
        body: &Value,
    ) -> impl Future<Output = Outcome> + Send;

    /// Sends a datagram; the answer, if one comes.
    fn datagram(
        &self,
        _gateway: usize,
        _datagram: Vec<u8>,
        _from: SocketAddr,
    ) -> impl Future<Output = Option<Vec<u8>>> + Send {
        async { None }
    }

    /// Whether somebody takes requests there.
    fn listens(&self, gateway: usize) -> bool {
        self.crowd().is_up(gateway)
    }

    /// Whether a gateway has been well for long enough to know what it must know.
    fn is_sound(&self, gateway: usize) -> bool;

    /// Whether a gateway may say that it does not know a session which its user has not ended.
    fn may_forget(&self, user: User, place: SocketAt) -> bool;

    /// How many devices a person has.
    fn devices(&self, _user: User) -> usize {
        2
    }

    /// The live of somebody who stays there, and the gateway on which to be.
    fn home(&self, _user: User) -> Option<(Live, usize)> {
        None
    }

    /// Whether a person who loses the connection comes back soon.
    fn must_return(&self, _user: User) -> bool {
        false
    }

    /// Whether people insist on the first gateway.
    fn is_first_crowded(&self) -> bool {
        false
    }

    /// The guest that a person may be instead, who has no account.
    fn guest_of(&self, _user: User) -> Option<User> {
        None
    }

    /// The token with which a guest goes on as this user.
    fn token(&self, _user: User) -> String {
        String::new()
    }

    /// What the query of a request says who the user is.
    fn credentials(&self, user: User) -> String {
        format!(
            "user_id={}&role={}",
            self.name_of_user(user),
            self.role(user)
        )
    }

    /// The role with which a user connects.
    fn role(&self, _user: User) -> &'static str {
        "viewer"
    }

    /// Whether a user asks, in the message to join, who of the friends is there.
    fn asks_for_friends(&self, _user: User) -> bool {
        false
    }

    /// Something that a device does or sees.
    fn note(&self, _gateway: usize, _what: &str) {}

    /// A message to a socket, which is in this live after it. It is null if the text is no JSON.
    fn hears(
        &self,
        _user: User,
        _place: SocketAt,
        _live: Option<Live>,
        _text: &str,
        _said: &Value,
    ) {
    }

    /// A gateway let a user in who asked for a live in that epoch.
    fn let_in(
        &self,
        _user: User,
        _live: Live,
        _place: SocketAt,
        _epoch: Option<u64>,
        _answer: &Value,
    ) {
    }

    /// A gateway took a guest for that user, in this live or in none.
    fn signed_in(&self, _user: User, _live: Option<Live>, _place: SocketAt) {}

    /// A socket is told that its live has closed.
    fn told_of_close(&self, _user: User, _live: Live, _place: SocketAt) {}

    /// A socket ended that its user did not end.
    fn socket_ended(&self, user: User, place: SocketAt, code: Option<u16>, why: &str);

    /// A session is not as it was promised.
    fn session_is_wrong(&self, user: User, live: Live, gateway: usize, why: &str);

    /// Nobody may use the id of a session any more.
    fn id_is_over(self: &Arc<Self>, _old: OldId) {}
}

/// A number that follows from a seed and a name.
#[must_use]
pub fn derived(seed: u64, name: &str) -> u64 {
    xxh3_64(format!("{seed}:{name}").as_bytes())
}
