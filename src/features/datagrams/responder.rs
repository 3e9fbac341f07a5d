//! Decides what becomes of each datagram: it is a beat, a leave or a hello of a session, or it is
//! worth nothing. Sends nothing itself, and never waits: `now` comes in, and the answer goes out.
//!
//! No datagram that lacks the session's authentication code changes anything or is answered. One
//! that has the code, but comes from an address that this gateway has not validated, is answered
//! with a challenge and changes nothing else, unless it is a leave; [`Strangers`] says who pays for
//! that.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::auth::session_claims::SessionClaims;
use crate::base::clock::Moment;
use crate::edge::http::state::AppState;
use crate::features::datagrams::addresses::AddressHasher;
use crate::features::datagrams::cookies::Cookies;
use crate::features::datagrams::refusals::{HelloRefusals, TicketHash};
use crate::features::datagrams::strangers::Strangers;
use crate::features::datagrams::tallies::{Fate, Tallies};
use crate::features::datagrams::wire::{
    Challenge, Cookie, Counter, DatagramAck, DatagramKey, DatagramRequest, DatagramStatus,
    DatagramWish, SHORT,
};
use crate::presence::Fan;
use crate::session::socketless::datagram_state::{AddressHash, Arrival, Opening};
use crate::session::socketless::sessions::EVERY_ID;
use crate::session::socketless::{SocketlessSession, Way};
use crate::store::Over;

/// What the sockets of a gateway share.
pub(crate) struct Shared {
    pub(crate) app: Arc<AppState>,
    cookies: Cookies,
    hasher: AddressHasher,
    pub(crate) refusals: HelloRefusals,
}

impl Shared {
    pub(crate) fn new(app: Arc<AppState>) -> Self {
        Self {
            cookies: Cookies::new(app.sessions.core.config.timeout),
            hasher: AddressHasher::default(),
            refusals: HelloRefusals::default(),
            app,
        }
    }

    /// The answer to a session that is here.
    pub(crate) fn ack(&self, session: &SocketlessSession, counter: Counter) -> DatagramAck {
        let Some(standing) = session.standing() else {
            // The live ended a moment ago.
            return self.farewell(DatagramStatus::Closed, counter);
        };
        let status = if session.was_told_to_move() {
            DatagramStatus::Move
        } else {
            DatagramStatus::Here
        };
        DatagramAck {
            status,
            fan: match standing.fan {
                Fan::Unknown => None,
                Fan::No => Some(false),
                Fan::Yes => Some(true),
            },
            viewers: saturating(standing.figures.viewers),
            fans: saturating(standing.figures.fans),
            // The low half tells two versions apart.
            info: standing.info_version as u32,
            ..self.farewell(status, counter)
        }
    }

    /// The answer to a session that is not here.
    pub(crate) fn farewell(&self, status: DatagramStatus, counter: Counter) -> DatagramAck {
        DatagramAck {
            counter,
            status,
            fan: None,
            viewers: 0,
            fans: 0,
            info: 0,
            beat_ms: saturating(self.app.presences.beat_ms()),
        }
    }
}

impl From<Over> for DatagramStatus {
    fn from(why: Over) -> Self {
        match why {
            Over::Left => Self::Left,
            Over::Removed => Self::Removed,
            Over::CrowdedOut => Self::CrowdedOut,
            Over::Switched | Over::Other => Self::Over,
        }
    }
}

fn saturating(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// What is to be done about a datagram.
pub(crate) enum DatagramReply {
    Nothing,
    Answer([u8; SHORT]),
    /// To go on with a session that another gateway has or had. That may have to wait for the
    /// store.
    Resume(Box<Resumption>),
}

/// A hello of a session that this gateway does not have, or has in a former live. Everything about
/// it is checked.
pub(crate) struct Resumption {
    pub(crate) claims: SessionClaims,
    pub(crate) ticket: TicketHash,
    pub(crate) key: [u8; 32],
    pub(crate) opening: Opening,
}

/// A datagram that a client could have sent, with its time.
struct ArrivedDatagram<'a> {
    request: DatagramRequest<'a>,
    from: SocketAddr,
    address: AddressHash,
    now: Moment,
}

/// The key of a session's datagrams, and the same ready for use.
struct DatagramKeys {
    bytes: [u8; 32],
    ready: DatagramKey,
}

impl DatagramKeys {
    fn new(bytes: [u8; 32]) -> Self {
        Self {
            ready: DatagramKey::new(&bytes),
            bytes,
        }
    }
}

/// Takes in the datagrams of one socket.
pub(crate) struct Responder {
    shared: Arc<Shared>,
    tallies: Tallies,
    strangers: Strangers,
}

impl Responder {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            tallies: Tallies::new(&shared.app.core.metrics),
            shared,
            strangers: Strangers::default(),
        }
    }

    /// Takes in one datagram.
    pub(crate) fn take(&mut self, bytes: &[u8], from: SocketAddr, now: Moment) -> DatagramReply {
        let Some(request) = DatagramRequest::read(bytes) else {
            return self.drop(Fate::Malformed);
        };
        let session = self.shared.app.presences.find(&request.session);
        let session = session.as_deref();
        let arrived = ArrivedDatagram {
            request,
            from,
            address: self.shared.hasher.hash(from),
            now,
        };
        match request.wish {
            DatagramWish::Beat => self.beat(&arrived, session),
            DatagramWish::Leave => self.leave(&arrived, session),
            DatagramWish::Hello { cookie, ticket } => self.hello(&arrived, session, cookie, ticket),
        }
    }

    fn drop(&self, fate: Fate) -> DatagramReply {
        self.tallies.count(fate);
        DatagramReply::Nothing
    }

    fn answer(&self, fate: Fate, datagram: [u8; SHORT]) -> DatagramReply {
        self.tallies.count(fate);
        DatagramReply::Answer(datagram)
    }

    // ---------------------------------------------------------------------------------- the beats

    fn beat(
        &mut self,
        arrived: &ArrivedDatagram<'_>,
        session: Option<&SocketlessSession>,
    ) -> DatagramReply {
        if let Some(session) = session
            && let Some(reply) = self.beat_from_home(arrived, session)
        {
            return reply;
        }
        match self.keys(arrived, session) {
            Ok(keys) => self.challenge(arrived, session, &keys.ready),
            Err(fate) => self.drop(fate),
        }
    }

    /// Takes in a beat from the session's validated address; `None` if it comes from another one.
    fn beat_from_home(
        &mut self,
        arrived: &ArrivedDatagram<'_>,
        session: &SocketlessSession,
    ) -> Option<DatagramReply> {
        let request = &arrived.request;
        let mut datagrams = session.datagrams.lock();
        let channel = datagrams.channel()?;
        if !channel.is_from(arrived.address) {
            return None;
        }
        let key = DatagramKey::new(channel.key());
        if !request.is_authentic(&key) {
            return Some(self.drop(Fate::Forged));
        }
        match channel.arrive(request.counter) {
            Arrival::Fresh => {}
            Arrival::Replayed => return Some(self.drop(Fate::Replayed)),
            Arrival::OtherChannel => {
                drop(datagrams);
                return Some(self.challenge(arrived, Some(session), &key));
            }
        }
        let is_asked = request.wants_answer || session.was_told_to_move();
        let answers = is_asked && channel.may_answer(arrived.now);
        drop(datagrams);
        self.shared.app.presences.beat(session, Way::Datagram);
        if request.watching {
            self.shared.app.presences.note_watching(session, Some(true));
        }
        if !answers {
            return Some(self.drop(Fate::Beat));
        }
        let ack = self.shared.ack(session, request.counter);
        Some(self.answer(Fate::Beat, ack.seal(&key)))
    }

    // ----------------------------------------------------------------------------------- the rest

    fn leave(
        &mut self,
        arrived: &ArrivedDatagram<'_>,
        session: Option<&SocketlessSession>,
    ) -> DatagramReply {
        let keys = match self.keys(arrived, session) {
            Ok(keys) => keys,
            Err(fate) => return self.drop(fate),
        };
        let request = &arrived.request;
        let presences = &self.shared.app.presences;
        // Whoever left never comes back, so an old leave is as good as a new one.
        presences.leave(request.session, EVERY_ID);
        if !self.may_answer(arrived, session) {
            return self.drop(Fate::Limited);
        }
        let left = self.shared.farewell(DatagramStatus::Left, request.counter);
        self.answer(Fate::Left, left.seal(&keys.ready))
    }

    fn hello(
        &mut self,
        arrived: &ArrivedDatagram<'_>,
        session: Option<&SocketlessSession>,
        cookie: Cookie,
        ticket: &str,
    ) -> DatagramReply {
        let ArrivedDatagram {
            request, from, now, ..
        } = arrived;
        if session.is_none() && self.shared.refusals.are_silent(&request.session, *now) {
            return self.drop(Fate::Limited);
        }
        let keys = match self.keys(arrived, session) {
            Ok(keys) => keys,
            Err(fate) => return self.drop(fate),
        };
        let cookies = &self.shared.cookies;
        let Some(cookie_made_at) = cookies.check(&cookie, *from, &request.session, *now) else {
            return self.challenge(arrived, session, &keys.ready);
        };
        if request.counter.channel != cookie.channel() {
            return self.drop(Fate::Malformed);
        }
        let opening = Opening {
            address: arrived.address,
            counter: request.counter,
            cookie_made_at,
        };
        match session {
            Some(session) if !self.is_behind(session, ticket) => {
                self.open(arrived, session, &keys, &opening)
            }
            _ => self.resume(arrived, ticket, &keys, opening),
        }
    }

    /// Whether a session that is here has switched to another live since, on another gateway.
    fn is_behind(&self, session: &SocketlessSession, ticket: &str) -> bool {
        let presences = &self.shared.app.presences;
        let claims = presences.read_ticket(ticket, &session.key);
        claims.is_some_and(|claims| claims.number > session.number())
    }

    /// A session that is here goes on from another address, or from its first one.
    fn open(
        &mut self,
        arrived: &ArrivedDatagram<'_>,
        session: &SocketlessSession,
        keys: &DatagramKeys,
        opening: &Opening,
    ) -> DatagramReply {
        let mut datagrams = session.datagrams.lock();
        if datagrams.open(keys.bytes, opening, arrived.now) != Arrival::Fresh {
            return self.drop(Fate::Replayed);
        }
        drop(datagrams);
        self.shared.app.presences.beat(session, Way::Datagram);
        let ack = self.shared.ack(session, arrived.request.counter);
        self.answer(Fate::Hello, ack.seal(&keys.ready))
    }

    fn resume(
        &mut self,
        arrived: &ArrivedDatagram<'_>,
        ticket: &str,
        keys: &DatagramKeys,
        opening: Opening,
    ) -> DatagramReply {
        let shared = self.shared.clone();
        let Shared { app, refusals, .. } = shared.as_ref();
        let ArrivedDatagram {
            request, from, now, ..
        } = arrived;
        let session = &request.session;
        let hash = TicketHash::of(ticket);
        if let Some(status) = refusals.told(session, hash, *now) {
            return self.sends_away(status, arrived, keys);
        }
        let Some(claims) = app.presences.read_ticket(ticket, session) else {
            return self.sends_away(DatagramStatus::Over, arrived, keys);
        };
        if let Some(why) = app.presences.over(&claims) {
            refusals.note(session, hash, *from, why.into(), *now);
            return self.sends_away(why.into(), arrived, keys);
        }
        if app.sessions.is_draining() {
            return self.sends_away(DatagramStatus::Move, arrived, keys);
        }
        if !refusals.begin(session, *from, *now) {
            return self.drop(Fate::Limited);
        }
        self.tallies.count(Fate::Resumed);
        DatagramReply::Resume(Box::new(Resumption {
            claims,
            ticket: hash,
            key: keys.bytes,
            opening,
        }))
    }

    /// Answers a hello of a session that is not here.
    fn sends_away(
        &self,
        status: DatagramStatus,
        arrived: &ArrivedDatagram<'_>,
        keys: &DatagramKeys,
    ) -> DatagramReply {
        let ArrivedDatagram { request, now, .. } = arrived;
        self.shared.refusals.answer(&request.session, *now);
        let farewell = self.shared.farewell(status, request.counter);
        self.answer(Fate::Over, farewell.seal(&keys.ready))
    }

    // ------------------------------------------------------------------------------- who it is

    /// The keys of an authentic datagram that may come from any address. Bounds what datagrams cost
    /// that turn out not to be authentic, unless they come from the session's validated address.
    fn keys(
        &mut self,
        arrived: &ArrivedDatagram<'_>,
        session: Option<&SocketlessSession>,
    ) -> Result<DatagramKeys, Fate> {
        let ArrivedDatagram {
            request,
            address,
            now,
            ..
        } = arrived;
        let known = session.and_then(|session| {
            let mut datagrams = session.datagrams.lock();
            let channel = datagrams.channel()?;
            Some((*channel.key(), channel.is_from(*address)))
        });
        let is_home = known.is_some_and(|(_, is_home)| is_home);
        if !is_home && self.strangers.have_spent_all(*now) {
            return Err(Fate::Limited);
        }
        let key = match known {
            Some((key, _)) => Some(key),
            None => {
                let secret = self.shared.app.presences.secret();
                secret.datagram_key(&request.session)
            }
        };
        if let Some(keys) = key.map(DatagramKeys::new)
            && request.is_authentic(&keys.ready)
        {
            return Ok(keys);
        }
        if !is_home {
            self.strangers.pay_for_forgery(*now);
        }
        Err(Fate::Forged)
    }

    /// Whether somebody pays for an answer to an authentic datagram that may come from any address.
    fn may_answer(
        &mut self,
        arrived: &ArrivedDatagram<'_>,
        session: Option<&SocketlessSession>,
    ) -> bool {
        let ArrivedDatagram {
            request,
            address,
            now,
            ..
        } = arrived;
        let taken_in = session.and_then(|session| {
            let mut datagrams = session.datagrams.lock();
            Some(datagrams.channel()?.newest())
        });
        self.strangers
            .pay_for_answer(request, *address, taken_in, *now)
    }

    /// Asks an authentic client to show that it receives what is sent to its address.
    fn challenge(
        &mut self,
        arrived: &ArrivedDatagram<'_>,
        session: Option<&SocketlessSession>,
        key: &DatagramKey,
    ) -> DatagramReply {
        let ArrivedDatagram {
            request, from, now, ..
        } = arrived;
        if !self.may_answer(arrived, session) {
            return self.drop(Fate::Limited);
        }
        let cookies = &self.shared.cookies;
        let challenge = Challenge {
            counter: request.counter,
            cookie: cookies.make(*from, &request.session, *now),
        };
        self.answer(Fate::Challenged, challenge.seal(key))
    }
}

#[cfg(test)]
mod tests;
